// The files of specs/ as they were when the library was built, so that one
// program can be carried to another host.
#pragma once

#include <span>
#include <string_view>

namespace assay::conform {

struct EmbeddedSpec {
  std::string_view name;  // file name without ".yaml"
  std::string_view yaml;
};

// Sorted by name. Defined in a file that cmake/EmbedYaml.cmake writes.
std::span<const EmbeddedSpec> embedded_specs();

}  // namespace assay::conform
