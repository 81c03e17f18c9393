// Width of the terminal that the standard output is.
#pragma once

#include <cstddef>

namespace assay {

std::size_t terminal_columns();  // 100 when the standard output is no terminal

}  // namespace assay
