// The sequences' part of the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace mercer {

void bind_strings(nanobind::module_& m);

}  // namespace mercer
