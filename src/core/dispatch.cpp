// Which build of vectors.cpp this machine runs.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "core.hpp"

namespace mercer {

namespace baseline {
extern const InstructionSet instructions;
}
#if defined(__x86_64__)
namespace avx2 {
extern const InstructionSet instructions;
}
namespace avx512 {
extern const InstructionSet instructions;
}
#endif

namespace {

// From the plainest to the best.
std::vector<const InstructionSet*> available() {
  std::vector<const InstructionSet*> sets = {&baseline::instructions};
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma) sets.push_back(&avx2::instructions);
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
    sets.push_back(&avx512::instructions);
  }
#endif
  return sets;
}

const InstructionSet* choose() {
  auto sets = available();
  const char* asked = std::getenv("MERCER_ISA");
  if (!asked || !*asked) return sets.back();
  std::string names;
  for (auto* set : sets) {
    if (std::string(asked) == set->name) return set;
    names += (names.empty() ? "" : ", ") + std::string(set->name);
  }
  throw std::runtime_error("MERCER_ISA=" + std::string(asked) +
                           " cannot run here; this machine has: " + names + ".");
}

}  // namespace

const InstructionSet& instruction_set() {
  static const InstructionSet* chosen = choose();
  return *chosen;
}

}  // namespace mercer
