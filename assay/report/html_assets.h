// The page's own files, embedded by html/embed.cmake.
#pragma once

#include <string_view>

namespace assay {

extern const std::string_view kFrameHtml;  // html/frame.html, of every page
extern const std::string_view kChartJs;    // Chart.js, minified

extern const std::string_view kPageHtml;  // html/page.html
extern const std::string_view kPageCss;   // html/*.css
extern const std::string_view kPageJs;    // html/*.js, in order

extern const std::string_view kRunsPageHtml;  // runs/html/page.html
extern const std::string_view kRunsPageCss;   // base.css, runs/html/page.css
extern const std::string_view kRunsPageJs;    // common scripts, runs/html/*.js

}  // namespace assay
