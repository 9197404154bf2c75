"""Time densities and their Fisher kernels against scikit-learn and hmmlearn.

    python benchmarks/structured_generative.py [--repeats N] [--cpu]

Every row runs ours and the peer in turn from the same parameters and checks that the
log-likelihoods agree; the table shows medians, with --cpu of processor time, which a
busy machine does not add to. The utterances are those of the Japanese
vowels, in the folder MERCER_DATA or in ../shared/data beside this repository; without
them, and without hmmlearn, their rows are left out.
"""

import argparse
import gzip
import json
import os
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
from record import record
from sklearn.mixture import GaussianMixture as SklearnMixture

from mercer import Fisher
from mercer.densities import HMM, GaussianMixture, MarkovChain, Normals

try:
    from hmmlearn.hmm import GaussianHMM
except ImportError:
    GaussianHMM = None

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
STEPS = 10  # of EM, the same for all

clock = time.perf_counter


def timed(calls, repeats):
    """The median time of each call in ms, run in turn, and what each returned last."""
    times, results = {name: [] for name in calls}, {}
    for _ in range(repeats):
        for name, call in calls.items():
            time.sleep(0.1)
            before = clock()
            results[name] = call()
            times[name].append(1e3 * (clock() - before))
    return {name: statistics.median(t) for name, t in times.items()}, results


def row(title, ours, peer, repeats):
    """Print a row; where there is a peer, its numbers are ours."""
    calls = {"ours": ours} | ({"peer": peer} if peer else {})
    times, results = timed(calls, repeats)
    cells = f"{title:<58}{times['ours']:>10.1f}"
    if peer:
        cells += f"{times['peer']:>10.1f}{times['peer'] / times['ours']:>8.2f}"
        np.testing.assert_allclose(results["ours"], results["peer"], rtol=1e-6)
    print(cells, flush=True)
    name = "scikit-learn" if title.startswith("mixture") else "hmmlearn"
    record("densities", title, {"mercer": times["ours"], name: times.get("peer")}, "ms")


def mixtures(repeats):
    """Fits and likelihoods of mixtures on 20,000 points, against scikit-learn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10)) + rng.choice([-2.0, 2.0], size=(20_000, 1))
    for form in ("full", "diag"):
        start = GaussianMixture(5, form, max_iter=0).fit(X)
        precisions = np.asarray(start.covariances)
        precisions = np.linalg.inv(precisions) if form == "full" else 1 / precisions
        peer = SklearnMixture(
            5, covariance_type=form, reg_covar=0, tol=0, max_iter=STEPS,
            weights_init=start.weights, means_init=start.means,
            precisions_init=precisions,
        )  # fmt: skip
        ours = GaussianMixture(
            5, form, start.weights, start.means, start.covariances, 0.0, 0.0, STEPS
        )

        def fit_peer(peer=peer):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is told to stop early
                return peer.fit(X).score(X)

        def fit_ours(ours=ours):
            return ours.fit(X).log_likelihood(X).mean()

        title = f"mixture of 5, {form}, 20,000 × 10"
        row(f"{title}: {STEPS} steps of EM", fit_ours, fit_peer, repeats)
        fitted = GaussianMixture.from_sklearn(peer)
        row(f"{title}: ln p", lambda f=fitted: f.log_likelihood(X),
            lambda p=peer: p.score_samples(X), repeats)  # fmt: skip
        row(f"{title}: scores", lambda f=fitted: f.score(X), None, repeats)


def chains(repeats):
    """Scores of strings: no peer has them."""
    model = MarkovChain("acgt", np.full(4, 0.25), np.full((4, 4), 0.25), length=60)
    X = model.sample(10_000, seed=1)
    kernel = Fisher(model)
    row("Markov chain, 10,000 strings of 60: Fisher features",
        lambda: kernel.features(X), None, repeats)  # fmt: skip


def peer_of(model):
    """hmmlearn's model with the same parameters, about to take as many steps."""
    form = model.emission.form
    peer = GaussianHMM(
        model.states, form, min_covar=0, covars_prior=0, covars_weight=0,
        n_iter=STEPS, tol=-np.inf, init_params="",
    )  # fmt: skip
    peer.startprob_, peer.transmat_ = model.start, model.transition
    peer.means_ = np.asarray(model.emission.means)
    peer.covars_ = np.asarray(model.emission.covariances)
    return peer


def hidden(repeats):
    """The same hidden chain on the same utterances, against hmmlearn."""
    file = DATA / "ts_japanese_vowels.jsonl.gz"
    if not file.exists():
        print(f"Left out: no {file.name} in {DATA}.")
        return
    with gzip.open(file, "rt") as lines:
        X = [np.array(json.loads(line)["x"]).T for line in lines]
    rows, lengths = np.concatenate(X), [len(x) for x in X]
    for form in ("full", "diag"):
        for k in (3, 5):
            start = HMM(k, Normals(form), max_iter=0).fit(X)
            ours = HMM(
                k, start.emission, start.start, start.transition, 0.0, 0.0, STEPS
            )

            def fit_peer(start=start):
                return peer_of(start).fit(rows, lengths).score(rows, lengths)

            def fit_ours(ours=ours):
                return ours.fit(X).log_likelihood(X).sum()

            def likelihood_peer(start=start):
                return peer_of(start).score(rows, lengths)

            title = f"HMM of {k} states, {form}, 640 utterances"
            known = GaussianHMM is not None
            row(f"{title}: {STEPS} steps of EM", fit_ours, fit_peer if known else None,
                repeats)  # fmt: skip
            row(f"{title}: ln p", lambda s=start: s.log_likelihood(X).sum(),
                likelihood_peer if known else None, repeats)  # fmt: skip
            row(f"{title}: scores", lambda s=start: s.score(X), None, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    repeats = options.repeats
    if options.cpu:
        global clock
        clock = time.process_time
    if GaussianHMM is None:
        print("Left out: the columns of hmmlearn, which is not installed.")
    print(f"{'':<58}{'ours ms':>10}{'peer ms':>10}{'ratio':>8}")
    mixtures(repeats)
    chains(repeats)
    hidden(repeats)


if __name__ == "__main__":
    main()
