// Forward and backward passes: Rabiner, Proceedings of the IEEE 77 (1989), section III.
//
// States are kept as logarithms, so that no sequence is too long and no density too small. Sums
// over states are sums of the numbers themselves as long as no product of three of them can
// underflow, with 2 k exponentials and logarithms per observation instead of k²; else, where a
// state is e^200 times less likely than another one, of logarithms (log-sum-exp) as before.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "densities.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();
constexpr double least = -200;            // logarithms of what is summed as it is
constexpr Index task = 4096;              // observations that are worth waking a thread for
constexpr Index between_polls = 1 << 14;  // observations of one run

double top_of(const double* logs, Index k) {
  double top = nothing;
  for (Index s = 0; s < k; ++s) top = std::max(top, logs[s]);
  return top;
}

// Turns logs into e^log with sum 1 and returns ln Σ e^log; if that is -inf, into 0.
double normalise(const double* logs, Index k, double* out) {
  double top = top_of(logs, k), sum = 0;
  if (top == nothing) {
    std::fill_n(out, k, 0.0);
    return nothing;
  }
  for (Index s = 0; s < k; ++s) sum += out[s] = std::exp(logs[s] - top);
  for (Index s = 0; s < k; ++s) out[s] /= sum;
  return top + std::log(sum);
}

// Whether all are numbers that can be multiplied as they are: e^log is 0, or not very small.
bool moderate(const double* logs, Index k, double top) {
  for (Index s = 0; s < k; ++s) {
    if (logs[s] - top < least && logs[s] != nothing) return false;
  }
  return true;
}

class Passes {
 public:
  explicit Passes(const HiddenChain& chain)
      : chain_(chain),
        start_(static_cast<std::size_t>(chain.k)),
        move_(static_cast<std::size_t>(chain.k * chain.k)) {
    for (Index s = 0; s < chain.k; ++s) start_[s] = std::log(chain.start[s]);
    for (std::size_t i = 0; i < move_.size(); ++i) move_[i] = std::log(chain.move[i]);
    moderate_ = moderate(move_.data(), chain.k * chain.k, 0.0);
  }

  struct Memory {
    std::vector<double> alpha, ahead, share, next, pairs, beta;
  };

  Memory memory() const {
    std::vector<double> states(static_cast<std::size_t>(chain_.k));
    return {{}, states, states, states, std::vector<double>(move_.size()), states};
  }

  // ln p of one run of T observations. alpha[t·k + s], if asked for, is the logarithm of
  // P(state s at t | the observations up to t).
  template <class Stop>
  double forward(const double* logs, Index T, double* alpha, Memory& m, const Stop& stop) const {
    Index k = chain_.k;
    double total = 0;
    m.ahead = start_;
    for (Index t = 0; t < T; ++t) {
      if ((t + 1) % between_polls == 0) stop();
      double* joint = m.next.data();
      for (Index s = 0; s < k; ++s) joint[s] = m.ahead[s] + logs[t * k + s];
      double sum = normalise(joint, k, m.share.data());
      total += sum;
      if (sum == nothing) return nothing;
      for (Index s = 0; s < k; ++s) joint[s] -= sum;
      if (alpha) std::copy_n(joint, k, alpha + t * k);
      if (t + 1 < T) step(joint, m);
    }
    return total;
  }

  // What the states were, after `forward`; moves are added to.
  template <class Stop>
  void backward(const double* logs, Index T, const double* alpha, double* answers, double* moves,
                Memory& m, const Stop& stop) const {
    Index k = chain_.k;
    std::fill(m.beta.begin(), m.beta.end(), 0.0);
    for (Index t = T - 1; t >= 0; --t) {
      if ((t + 1) % between_polls == 0) stop();
      double* joint = m.next.data();
      for (Index s = 0; s < k; ++s) joint[s] = alpha[t * k + s] + m.beta[s];
      normalise(joint, k, answers + t * k);
      if (t == 0) return;
      double* ahead = m.ahead.data();
      for (Index s = 0; s < k; ++s) ahead[s] = logs[t * k + s] + m.beta[s];
      back(alpha + (t - 1) * k, ahead, moves, m);
    }
  }

 private:
  // ahead[s] = ln P(state s at t + 1 | the observations up to t); share is e^alpha.
  void step(const double* alpha, Memory& m) const {
    Index k = chain_.k;
    if (moderate_ && moderate(alpha, k, 0.0)) {
      std::fill(m.ahead.begin(), m.ahead.end(), 0.0);
      for (Index i = 0; i < k; ++i) {
        for (Index j = 0; j < k; ++j) m.ahead[j] += m.share[i] * chain_.move[i * k + j];
      }
      for (Index j = 0; j < k; ++j) m.ahead[j] = std::log(m.ahead[j]);
      return;
    }
    for (Index j = 0; j < k; ++j) {
      for (Index i = 0; i < k; ++i) m.pairs[i] = alpha[i] + move_[i * k + j];
      m.ahead[j] = normalise(m.pairs.data(), k, m.share.data());
    }
  }

  // The expected move from t - 1, where alpha is, to t, and beta of t - 1, its largest number 0,
  // from ahead = ln p(x_t | state) + beta of t.
  void back(const double* alpha, double* ahead, double* moves, Memory& m) const {
    Index k = chain_.k;
    double top = top_of(ahead, k), total = 0, *pairs = m.pairs.data();
    for (Index j = 0; j < k; ++j) ahead[j] -= top;
    if (moderate_ && moderate(alpha, k, 0.0) && moderate(ahead, k, 0.0)) {
      for (Index j = 0; j < k; ++j) ahead[j] = std::exp(ahead[j]);
      for (Index i = 0; i < k; ++i) {
        double share = std::exp(alpha[i]), sum = 0;
        for (Index j = 0; j < k; ++j) {
          double part = chain_.move[i * k + j] * ahead[j];
          sum += part;
          pairs[i * k + j] = share * part;
        }
        for (Index j = 0; j < k; ++j) total += pairs[i * k + j];
        m.beta[i] = std::log(sum);
      }
      for (Index i = 0; i < k * k; ++i) moves[i] += pairs[i] / total;
    } else {
      for (Index i = 0; i < k; ++i) {
        for (Index j = 0; j < k; ++j) pairs[i * k + j] = move_[i * k + j] + ahead[j];
        m.beta[i] = normalise(pairs + i * k, k, m.share.data());
        for (Index j = 0; j < k; ++j) pairs[i * k + j] += alpha[i];
      }
      normalise(pairs, k * k, pairs);
      for (Index i = 0; i < k * k; ++i) moves[i] += pairs[i];
    }
    top = top_of(m.beta.data(), k);
    for (Index i = 0; i < k; ++i) m.beta[i] -= top;
  }

  HiddenChain chain_;
  std::vector<double> start_, move_;  // logarithms
  bool moderate_ = false;
};

// Calls work(run, memory, stop) for all runs, some of them at once; `stop` lets Ctrl-C end a long
// one. Each writes to places of its own, so the order does not matter.
template <class Work>
void each_run(const Passes& passes, const Runs& runs, const Poll& poll, const Work& work) {
  std::vector<Index> begins = {0};  // groups of runs that have `task` observations or more
  for (Index r = 0; r < runs.count; ++r) {
    if (runs.end(r) - runs.begin(begins.back()) >= task) begins.push_back(r + 1);
  }
  if (begins.back() < runs.count) begins.push_back(runs.count);
  Index groups = static_cast<Index>(begins.size()) - 1;
  int workers = static_cast<int>(std::max<Index>(1, std::min<Index>(threads(), groups)));
  std::vector<Passes::Memory> memories;
  for (int w = 0; w < workers; ++w) memories.push_back(passes.memory());
  auto group = [&](Index number, int worker) {
    auto stop = [&] {
      if (worker == 0 && poll) poll();  // the thread that called
    };
    for (Index r = begins[number]; r < begins[number + 1]; ++r) work(r, memories[worker], stop);
  };
  parallel(groups, workers, group, poll);
}

}  // namespace

void likelihood(const HiddenChain& chain, const double* logs, const Runs& runs, double* out,
                const Poll& poll) {
  Passes passes(chain);
  each_run(passes, runs, poll, [&](Index r, Passes::Memory& memory, const auto& stop) {
    Index from = runs.begin(r), T = runs.end(r) - from;
    out[r] = passes.forward(logs + from * chain.k, T, nullptr, memory, stop);
  });
}

void forward_backward(const HiddenChain& chain, const double* logs, const Runs& runs, double* out,
                      double* answers, double* moves, const Poll& poll) {
  Passes passes(chain);
  Index k = chain.k;
  each_run(passes, runs, poll, [&](Index r, Passes::Memory& memory, const auto& stop) {
    Index from = runs.begin(r), T = runs.end(r) - from;
    memory.alpha.resize(static_cast<std::size_t>(T * k));
    std::fill_n(answers + from * k, T * k, 0.0);
    std::fill_n(moves + r * k * k, k * k, 0.0);
    out[r] = passes.forward(logs + from * k, T, memory.alpha.data(), memory, stop);
    if (out[r] == nothing) return;
    passes.backward(logs + from * k, T, memory.alpha.data(), answers + from * k, moves + r * k * k,
                    memory, stop);
  });
}

}  // namespace mercer
