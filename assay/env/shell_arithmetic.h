// $((GPUS * NODES)) of a shell: integers, + - * / % and parentheses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace assay::env {

// What a variable holds; none where that is not known.
using ShellNumber =
    std::function<std::optional<std::string>(std::string_view name)>;

// None for anything else, an unknown variable, an overflow or a division by
// zero.
std::optional<std::int64_t> shell_arithmetic(std::string_view text,
                                             const ShellNumber& variable);

}  // namespace assay::env
