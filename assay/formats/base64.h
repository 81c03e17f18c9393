// Strict base64 (RFC 4648, padded, standard alphabet).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace assay {

// Throws Error{kRefused} naming `file` and `offset` (where `text` begins in
// it) on a foreign character, misplaced padding or a cut group.
std::vector<std::byte> base64_decode(std::string_view text,
                                     std::string_view file,
                                     std::uint64_t offset);

}  // namespace assay
