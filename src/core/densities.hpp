// Gaussian densities, shares of logarithms, and chains of hidden states.
#pragma once

#include "core.hpp"

namespace mercer {

// N(x | mean, deviation²), k densities of d independent coordinates: mean and deviation (k × d).
// Where x is NaN it was not observed.
struct DiagonalNormals {
  Index k = 0, d = 0;
  const double *mean = nullptr, *deviation = nullptr;
};

// ln N of what was observed of n rows (n × d) under each density: out (n × k).
void log_densities(const DiagonalNormals&, const double* rows, Index n, double* out,
                   const Poll& = {});

// N(x | mean, LLᵀ), k densities of d coordinates: mean (k × d) and lower triangles L = factor
// (k × d × d).
struct FullNormals {
  Index k = 0, d = 0;
  const double *mean = nullptr, *factor = nullptr;
};

// The same of rows that were observed as a whole.
void log_densities(const FullNormals&, const double* rows, Index n, double* out, const Poll& = {});

// Rows one after another, cut into runs: run r has those from offsets[r] to offsets[r + 1].
struct Runs {
  Index count = 0;
  const Index* offsets = nullptr;
  Index begin(Index r) const { return offsets[r]; }
  Index end(Index r) const { return offsets[r + 1]; }
};

// With z = (x - mean) / deviation and answers (n × k), the sums of answers · z, first, and of
// answers · z², second, over the rows of each run: (runs × k × d). Of what was not observed the
// expectations are taken, E z = 0 and E z² = 1.
void moments(const DiagonalNormals&, const double* rows, const Runs&, const double* answers,
             double* first, double* second, const Poll& = {});

// With e = x - mean of k means (k × d), the sums of answers · e, first (runs × k × d), and of
// answers · eeᵀ, second (runs × k × d × d), over the rows of each run, observed as a whole.
void scatter(const double* mean, Index k, Index d, const double* rows, const Runs&,
             const double* answers, double* first, double* second, const Poll& = {});

// Turns n rows of k logarithms into e^log with sum 1; sums (n) has ln Σ e^log.
void shares(double* logs, Index n, Index k, double* sums, const Poll& = {});

// A chain of k hidden states: the probabilities of the first, (k), and of moves, (k × k).
struct HiddenChain {
  Index k = 0;
  const double *start = nullptr, *move = nullptr;
};

// From the log densities of observations in each state, logs (n × k): ln p of each run.
void likelihood(const HiddenChain&, const double* logs, const Runs&, double* out, const Poll& = {});

// Besides, the probabilities of the states at each observation given its run, answers (n × k), and
// how often each move is expected in each run, moves (runs × k × k). All are 0 in a run that is
// impossible.
void forward_backward(const HiddenChain&, const double* logs, const Runs&, double* out,
                      double* answers, double* moves, const Poll& = {});

}  // namespace mercer
