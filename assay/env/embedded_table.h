// The files of specs/environment/ as they were when the library was built.
#pragma once

#include <span>
#include <string_view>

namespace assay::env {

struct EmbeddedTable {
  std::string_view name;  // file name without ".yaml"
  std::string_view yaml;
};

// Sorted by name. Defined in a file that cmake/EmbedYaml.cmake writes.
std::span<const EmbeddedTable> embedded_tables();

}  // namespace assay::env
