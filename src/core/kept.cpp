#include "kept.hpp"

#include <algorithm>
#include <mutex>
#include <new>

namespace mercer {
namespace {

struct Kept {
  std::mutex mutex;
  RowBuffer<float> single;
  RowBuffer<double> twice;

  template <class T>
  RowBuffer<T>& of() {
    if constexpr (sizeof(T) == 4) {
      return single;
    } else {
      return twice;
    }
  }
  std::size_t bytes() const {
    return single.capacity() * sizeof(float) + twice.capacity() * sizeof(double);
  }
};

Kept& kept() {
  // Never destroyed: a daemon thread may still be at work when the process ends.
  static Kept* all = new Kept;
  return *all;
}

// Never waited for: a forked child may find it locked for ever.
std::unique_lock<std::mutex> lock_if_free() {
  return {kept().mutex, std::try_to_lock};
}

template <class T>
double bytes_of(const RowBuffer<T>& rows) {
  return static_cast<double>(rows.capacity() * sizeof(T));
}

}  // namespace

template <class T>
Inherited<T>::Inherited(double cache_bytes) : cache_bytes_(cache_bytes) {
  using Other = std::conditional_t<sizeof(T) == 4, double, float>;
  RowBuffer<Other> given_back;
  {
    auto lock = lock_if_free();
    if (!lock) return;
    scratch.rows.swap(kept().of<T>());
    if (bytes_of(kept().of<Other>()) > cache_bytes) given_back.swap(kept().of<Other>());
  }
}

template <class T>
Inherited<T>::~Inherited() {
  using Other = std::conditional_t<sizeof(T) == 4, double, float>;
  RowBuffer<T> too_large;
  RowBuffer<Other> given_back;
  double bytes = bytes_of(scratch.rows);
  double most = std::max(cache_bytes_, std::min(scratch.cache_bytes, 2 * cache_bytes_));
  bool fits = bytes > 0 && bytes <= most;
  if (fits) release_pages(scratch.rows.data(), static_cast<std::size_t>(bytes));
  auto lock = lock_if_free();
  if (!lock) return;
  // Where two solves ran at once there may be one already: the larger that fits is kept.
  auto& own = kept().of<T>();
  if (bytes_of(own) > most) too_large.swap(own);
  if (fits && bytes > bytes_of(own)) scratch.rows.swap(own);
  if (static_cast<double>(kept().bytes()) > most) given_back.swap(kept().of<Other>());
}

std::size_t kept_bytes() {
  auto lock = lock_if_free();
  return lock ? kept().bytes() : 0;
}

std::size_t release_kept() {
  RowBuffer<float> single;
  RowBuffer<double> twice;
  auto lock = lock_if_free();
  if (!lock) return 0;
  std::size_t bytes = kept().bytes();
  single.swap(kept().single);
  twice.swap(kept().twice);
  return bytes;
}

void* allocated(std::size_t bytes, std::align_val_t boundary) {
  try {
    return ::operator new(bytes, boundary);
  } catch (const std::bad_alloc&) {
    if (release_kept() == 0) throw;
    return ::operator new(bytes, boundary);
  }
}

template class Inherited<float>;
template class Inherited<double>;

}  // namespace mercer
