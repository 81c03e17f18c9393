// Text for a terminal: safe to print, measured and cut in columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

// Control characters, bidirectional overrides and invalid UTF-8 as \xNN (or
// \u202e), everything else as it is: a name cannot move the cursor, change
// colours or reorder the line.
std::string safe_text(std::string_view text);

// Columns of safe, valid UTF-8: East Asian wide characters take two, combining
// marks none.
std::size_t display_width(std::string_view text);

// At most `width` columns; what is cut (after a third, or at the end) is
// replaced by one "…".
std::string elide_middle(std::string_view text, std::size_t width);
std::string elide_end(std::string_view text, std::size_t width);

// "1 case", "1,203 cases".
std::string plural(std::int64_t count, std::string_view word);

// Spaces appended up to `width` columns.
std::string pad_right(std::string_view text, std::size_t width);

}  // namespace assay
