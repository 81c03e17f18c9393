#include "assay/report/page.h"

#include <utility>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/report/html_assets.h"
#include "assay/report/markup.h"

namespace assay {
namespace {

// The frame up to the mark and the text in its place. Marks stand in the order
// in which they are filled.
void fill(AtomicFile& file, std::string_view& frame, std::string_view mark,
          std::string_view text) {
  const std::size_t at = frame.find(mark);
  if (at == std::string_view::npos)
    throw Error(Code::kInternal, "page: no " + std::string(mark));
  file.write(frame.substr(0, at));
  file.write(text);
  frame.remove_prefix(at + mark.size());
}

std::string script_elements(const std::vector<std::string_view>& scripts) {
  std::string out;
  for (const std::string_view script : scripts)
    out.append("<script nonce=\"assay\">").append(script).append("</script>\n");
  return out;
}

}  // namespace

void write_page(const Page& page, const std::filesystem::path& path) {
  AtomicFile file(path);
  std::string_view frame = kFrameHtml;
  fill(file, frame, "{{title}}", page.title);
  fill(file, frame, "{{css}}", page.css);
  fill(file, frame, "{{what}}", page.what);
  fill(file, frame, "{{kind}}", page.kind);
  fill(file, frame, "{{body}}", page.body);
  fill(file, frame, "{{data}}", script_json(page.json));
  fill(file, frame, "{{scripts}}", script_elements(page.scripts));
  file.write(frame);
  file.commit();
}

}  // namespace assay
