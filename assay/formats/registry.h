// The table of tensor file formats: what open_tensors() in tensor_source.h
// chooses from. Adding a format is one reader and one row in registry.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct FormatInfo {
  std::string_view name;        // "safetensors"
  std::string_view extensions;  // ".pt .pth", separated by spaces
  std::string_view description;
};

// In the order they are tried. For `assay doctor` and the documents.
std::vector<FormatInfo> supported_formats();

}  // namespace assay
