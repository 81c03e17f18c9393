// The page's own files, embedded by html/embed.cmake.
#pragma once

#include <string_view>

namespace assay {

extern const std::string_view kPageHtml;  // html/page.html
extern const std::string_view kPageCss;   // html/*.css
extern const std::string_view kPageJs;    // html/*.js, in order
extern const std::string_view kChartJs;   // Chart.js, minified

}  // namespace assay
