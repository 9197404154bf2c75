// Kernel values with the roundings of one product and one addition after another. Entries that are
// 0 add 0 to a sum and change no digit of it, so that points may be spread over all columns.
#include "ordered.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "threads.hpp"

namespace mercer {

namespace {

constexpr Index kLanes = 8;      // support vectors whose sums run side by side
constexpr Index kTask = 16;      // points of a task
constexpr Index kSteps = 100;    // of the iteration for probabilities, or one for each class
constexpr double kClear = 1e-7;  // p of a pair stays between this and 1 minus this

double power(double base, Index times) {
  double square = base, product = 1;
  for (; times > 0; times /= 2) {
    if (times % 2 == 1) product *= square;
    square *= square;
  }
  return product;
}

// Support vectors spread over all columns, eight side by side, where few entries are 0.
class Evaluator {
 public:
  explicit Evaluator(const OrderedModel& model) : model_(model) {
    Index n = model.vectors.rows, d = model.columns;
    // A precomputed kernel has serial numbers in place of entries.
    bool spread = model.kernel != OrderedKernel::precomputed && n > 0;
    dense_ = spread && 4 * model.vectors.ends[n] >= n * d;
    if (!dense_) return;
    Index groups = (n + kLanes - 1) / kLanes;
    spread_.assign(static_cast<std::size_t>(groups * d * kLanes), 0.0);
    for (Index i = 0; i < n; ++i)
      for (Index e = model.vectors.ends[i]; e < model.vectors.ends[i + 1]; ++e)
        spread_[place(i / kLanes * d + model.vectors.columns[e]) + place1(i % kLanes)] =
            model.vectors.values[e];
  }

  // The kernel values of a point with all support vectors; x is the point over all columns, zero
  // but for its entries.
  void values(const SparseRowsView& X, Index row, const double* x, double* out) const {
    Index n = model_.vectors.rows;
    if (model_.kernel == OrderedKernel::precomputed) {
      for (Index i = 0; i < n; ++i) out[i] = x[model_.serial[i]];
      return;
    }
    bool radial = model_.kernel == OrderedKernel::rbf;
    if (dense_) {
      lanes(x, radial, out);
    } else {
      for (Index i = 0; i < n; ++i) out[i] = radial ? distance(X, row, i) : product(x, i);
    }
    for (Index i = 0; i < n; ++i) out[i] = finish(out[i]);
  }

 private:
  static std::size_t place(Index i) { return static_cast<std::size_t>(i * kLanes); }
  static std::size_t place1(Index i) { return static_cast<std::size_t>(i); }

  double finish(double sum) const {
    switch (model_.kernel) {
      case OrderedKernel::polynomial:
        return power(model_.gamma * sum + model_.coef0, model_.degree);
      case OrderedKernel::rbf:
        return std::exp(-model_.gamma * sum);
      case OrderedKernel::sigmoid:
        return std::tanh(model_.gamma * sum + model_.coef0);
      default:
        return sum;
    }
  }

  void lanes(const double* x, bool radial, double* out) const {
    Index n = model_.vectors.rows, d = model_.columns;
    for (Index i = 0; i < n; i += kLanes) {
      const double* y = spread_.data() + place(i / kLanes * d);
      double sum[kLanes] = {};
      if (radial) {
        for (Index j = 0; j < d; ++j, y += kLanes)
          for (Index l = 0; l < kLanes; ++l) {
            double t = x[j] - y[l];
            sum[l] += t * t;
          }
      } else {
        for (Index j = 0; j < d; ++j, y += kLanes)
          for (Index l = 0; l < kLanes; ++l) sum[l] += x[j] * y[l];
      }
      std::copy_n(sum, std::min(kLanes, n - i), out + i);
    }
  }

  double product(const double* x, Index i) const {
    const SparseRowsView& Y = model_.vectors;
    double sum = 0;
    for (Index e = Y.ends[i]; e < Y.ends[i + 1]; ++e) sum += x[Y.columns[e]] * Y.values[e];
    return sum;
  }

  double distance(const SparseRowsView& X, Index row, Index i) const {
    const SparseRowsView& Y = model_.vectors;
    Index a = X.ends[row], a_end = X.ends[row + 1], b = Y.ends[i], b_end = Y.ends[i + 1];
    double sum = 0;
    while (a < a_end && b < b_end) {
      Index here = X.columns[a], there = Y.columns[b];
      if (here == there) {
        double t = X.values[a++] - Y.values[b++];
        sum += t * t;
      } else {
        double t = here < there ? X.values[a++] : Y.values[b++];
        sum += t * t;
      }
    }
    for (; a < a_end; ++a) sum += X.values[a] * X.values[a];
    for (; b < b_end; ++b) sum += Y.values[b] * Y.values[b];
    return sum;
  }

  const OrderedModel& model_;
  bool dense_ = false;
  std::vector<double> spread_;
};

void decide(const OrderedModel& model, const double* K, double* out) {
  Index n = model.vectors.rows, classes = model.classes;
  auto add = [&](double sum, const double* coef, Index begin, Index end) {
    for (Index i = begin; i < end; ++i) sum += coef[i] * K[i];
    return sum;
  };
  if (classes == 0) {
    *out = add(0, model.coef, 0, n) - *model.rho;
    return;
  }
  const double* rho = model.rho;
  for (Index i = 0; i < classes; ++i)
    for (Index j = i + 1; j < classes; ++j) {
      double sum = add(0, model.coef + (j - 1) * n, model.first[i], model.first[i + 1]);
      sum = add(sum, model.coef + i * n, model.first[j], model.first[j + 1]);
      *out++ = sum - *rho++;
    }
}

double sigmoid(double f, double A, double B) {
  double t = f * A + B;
  // exp of what is negative: 1 minus it is used too.
  return t >= 0 ? std::exp(-t) / (1.0 + std::exp(-t)) : 1.0 / (1 + std::exp(t));
}

// min Σᵢ Σⱼ (rⱼᵢ pᵢ - rᵢⱼ pⱼ)², Σ p = 1, by one coordinate after another. False where it takes all
// its steps.
bool couple(Index k, const std::vector<double>& r, std::vector<double>& Q, std::vector<double>& Qp,
            double* p) {
  auto at = [k](Index i, Index j) { return static_cast<std::size_t>(i * k + j); };
  for (Index t = 0; t < k; ++t) {
    p[t] = 1.0 / static_cast<double>(k);
    Q[at(t, t)] = 0;
    for (Index j = 0; j < k; ++j) {
      if (j == t) continue;
      Q[at(t, t)] += r[at(j, t)] * r[at(j, t)];
      // Rounded once for both places.
      Q[at(t, j)] = j < t ? Q[at(j, t)] : -r[at(j, t)] * r[at(t, j)];
    }
  }
  double enough = 0.005 / static_cast<double>(k);
  for (Index step = 0; step < std::max(kSteps, k); ++step) {
    double pQp = 0, worst = 0;
    for (Index t = 0; t < k; ++t) {
      double sum = 0;
      for (Index j = 0; j < k; ++j) sum += Q[at(t, j)] * p[j];
      Qp[static_cast<std::size_t>(t)] = sum;
      pQp += p[t] * sum;
    }
    for (Index t = 0; t < k; ++t)
      worst = std::max(worst, std::abs(Qp[static_cast<std::size_t>(t)] - pQp));
    if (worst < enough) return true;
    for (Index t = 0; t < k; ++t) {
      double own = Q[at(t, t)], slope = Qp[static_cast<std::size_t>(t)];
      double move = (-slope + pQp) / own;
      p[t] += move;
      pQp = (pQp + move * (move * own + 2 * slope)) / (1 + move) / (1 + move);
      for (Index j = 0; j < k; ++j) {
        double& other = Qp[static_cast<std::size_t>(j)];
        other = (other + move * Q[at(t, j)]) / (1 + move);
        p[j] /= 1 + move;
      }
    }
  }
  return false;
}

using RowsOfWorker = std::function<void(Index begin, Index end, std::size_t worker)>;

void for_rows(Index m, int workers, const RowsOfWorker& work, const Poll& poll) {
  parallel((m + kTask - 1) / kTask, workers,
           [&](Index task, int worker) {
             work(task * kTask, std::min(m, (task + 1) * kTask), static_cast<std::size_t>(worker));
           },
           poll);
}

}  // namespace

void ordered_values(const OrderedModel& model, const SparseRowsView& X, double* values,
                    const Poll& poll) {
  Evaluator evaluator(model);
  Index functions = model.classes ? model.classes * (model.classes - 1) / 2 : 1;
  int workers = threads();
  // A point over all columns, and its kernel values, for each worker.
  auto columns = static_cast<std::size_t>(model.columns);
  std::vector<std::vector<double>> points(static_cast<std::size_t>(workers)), rows = points;
  for_rows(
      X.rows, workers,
      [&](Index begin, Index end, std::size_t worker) {
        std::vector<double>&x = points[worker], &K = rows[worker];
        if (x.empty()) x.resize(columns);
        if (K.empty()) K.resize(static_cast<std::size_t>(model.vectors.rows));
        for (Index r = begin; r < end; ++r) {
          for (Index e = X.ends[r]; e < X.ends[r + 1]; ++e)
            x[static_cast<std::size_t>(X.columns[e])] = X.values[e];
          evaluator.values(X, r, x.data(), K.data());
          decide(model, K.data(), values + r * functions);
          for (Index e = X.ends[r]; e < X.ends[r + 1]; ++e)
            x[static_cast<std::size_t>(X.columns[e])] = 0;
        }
      },
      poll);
}

Index ordered_probabilities(Index k, Index m, const double* values, const double* A,
                            const double* B, double* p, const Poll& poll) {
  Index pairs = k * (k - 1) / 2;
  std::atomic<Index> unfinished = 0;
  for_rows(
      m, threads(),
      [&](Index begin, Index end, std::size_t) {
        auto square = static_cast<std::size_t>(k * k);
        std::vector<double> r(square), Q(square), Qp(static_cast<std::size_t>(k));
        for (Index row = begin; row < end; ++row) {
          const double* f = values + row * pairs;
          Index pair = 0;
          for (Index i = 0; i < k; ++i)
            for (Index j = i + 1; j < k; ++j, ++pair) {
              double one = sigmoid(f[pair], A[pair], B[pair]);
              one = std::min(std::max(one, kClear), 1 - kClear);
              r[static_cast<std::size_t>(i * k + j)] = one;
              r[static_cast<std::size_t>(j * k + i)] = 1 - one;
            }
          if (k == 2) {
            p[2 * row] = r[1];
            p[2 * row + 1] = r[2];
          } else if (!couple(k, r, Q, Qp, p + row * k)) {
            ++unfinished;
          }
        }
      },
      poll);
  return unfinished;
}

}  // namespace mercer
