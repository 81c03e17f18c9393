// What a report needs to put the text of others into XML and into a page.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// Valid UTF-8 without the control and noncharacters that XML 1.0 forbids,
// markup escaped; safe in text and in quoted attributes.
std::string xml_text(std::string_view text);

// JSON that is safe inside a <script> element: "<" is escaped, so that no name
// can end it, and so are U+2028 and U+2029.
std::string script_json(const std::string& json);

}  // namespace assay
