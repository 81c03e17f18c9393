// One HTML page that needs nothing beside it: what every report's page is
// made of.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct Page {
  std::string_view title;  // until the page's script says it better
  std::string_view kind;   // beside the name of the program
  std::string_view what;   // that its link skips to, the element "rows"
  std::string_view css, body;
  std::string json;  // its data; any text is safe in it
  std::vector<std::string_view> scripts;
};

// Style, scripts and data are in the page: it opens from disk, offline, and
// its content policy allows no request and no inline handler. Replaces `path`
// only when complete. Throws Error.
void write_page(const Page& page, const std::filesystem::path& path);

}  // namespace assay
