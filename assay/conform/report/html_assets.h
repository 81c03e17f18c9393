// The files of a run's page, embedded by assay/report/html/embed.cmake.
#pragma once

#include <string_view>

namespace assay::conform {

extern const std::string_view kRunPageHtml;  // html/page.html
extern const std::string_view kRunPageCss;   // base.css, html/page.css
extern const std::string_view kRunPageJs;    // common scripts, html/*.js

}  // namespace assay::conform
