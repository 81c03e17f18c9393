// The `descr` of a .npy header: numpy's "<f4" spelling of a dtype.
#pragma once

#include <cstdint>
#include <string_view>

#include "assay/formats/npy_header.h"

namespace assay {

// Sets dtype, is_void, unsupported, element_bytes and order of `header`.
// Throws Error{kRefused} for text that is no numpy dtype, and for objects.
void apply_npy_descr(std::string_view descr, std::string_view file,
                     std::uint64_t offset, NpyHeader& header);

// Throws Error{kRefused} when a field of a structured dtype is an object.
void refuse_object_fields(std::string_view fields, std::string_view file,
                          std::uint64_t offset);

}  // namespace assay
