// Appending numbers and text to a growing buffer: what every writer's hot loop
// is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

void append_int(std::string& out, std::int64_t value);
void append_uint(std::string& out, std::uint64_t value);

// Shortest text that round-trips, laid out as Python's repr ("1.0", "1e-05",
// "123456789.5"), so that a csv diffs cleanly against one written by pandas.
// "nan", "inf" and "-inf" for what is not finite.
void append_double(std::string& out, double value);

// `digits` significant digits, trailing zeros dropped: "0.00471", "1.2e-07".
void append_short(std::string& out, double value, int digits);

// Copies text as valid UTF-8. A byte that is no valid UTF-8 becomes U+FFFD
// followed by its two hex digits, and so do the three bytes of a U+FFFD that
// was there already: replacing every U+FFFD + hh by the byte hh gives the
// original back. `escape_controls` treats control characters (below 0x20 and
// 0x7f) the same way.
void append_utf8(std::string& out, std::string_view text,
                 bool escape_controls = false);

// A quoted JSON string; invalid UTF-8 as append_utf8 does.
void append_json_string(std::string& out, std::string_view text);

// A JSON number, or "nan" / "inf" / "-inf" in quotes.
void append_json_double(std::string& out, double value);

// Leading bytes that neither JSON, csv nor UTF-8 treat specially: printable
// ASCII except the quote, the backslash and the comma.
std::size_t plain_prefix(std::string_view text);

// Length of the valid UTF-8 sequence at the start of `text`; 0 when there is
// none (overlong forms, surrogates and values over U+10FFFF are invalid).
int utf8_sequence(std::string_view text);

}  // namespace assay
