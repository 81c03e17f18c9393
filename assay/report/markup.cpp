#include "assay/report/markup.h"

#include "assay/base/text_out.h"

namespace assay {

std::string xml_text(std::string_view text) {
  std::string clean;
  append_utf8(clean, text, /*escape_controls=*/true);
  std::string out;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const char c = clean[i];
    const std::string_view rest = std::string_view(clean).substr(i);
    if (rest.starts_with("\xEF\xBF\xBE") || rest.starts_with("\xEF\xBF\xBF"))
      i += 2;  // U+FFFE and U+FFFF
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string script_json(const std::string& json) {
  constexpr std::string_view kSeparator = "\xE2\x80\xA8";
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  std::size_t from = 0;
  for (;;) {
    const std::size_t at = json.find_first_of("<\xE2", from);
    out.append(json, from, at - from);
    if (at == std::string::npos) return out;
    const std::string_view rest = std::string_view(json).substr(at, 3);
    from = at + 1;
    if (json[at] == '<') {
      out.append("\\u003c");
    } else if (rest == kSeparator || rest == "\xE2\x80\xA9") {
      out.append(rest == kSeparator ? "\\u2028" : "\\u2029");
      from = at + 3;
    } else {
      out.push_back(json[at]);
    }
  }
}

}  // namespace assay
