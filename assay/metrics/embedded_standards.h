// The files of standards/ as they were when the library was built, so that
// the tool needs no file of its own at run time.
#pragma once

#include <span>
#include <string_view>

namespace assay {

struct EmbeddedStandard {
  std::string_view name;  // file name without ".yaml"
  std::string_view yaml;
};

// Sorted by name. Defined in a file that cmake/EmbedYaml.cmake writes.
std::span<const EmbeddedStandard> embedded_standards();

}  // namespace assay
