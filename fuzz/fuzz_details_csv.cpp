// Fuzzes the reader of pre-check details: whatever is read can be written, and
// reads back as it was.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/precheck/detail/csv.h"

namespace {

using assay::precheck::Detail;

bool same(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return *a == *b || (std::isnan(*a) && std::isnan(*b));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<Detail> rows =
        assay::precheck::parse_details_csv(bytes, "fuzz");
    std::string written = assay::precheck::details_csv_heading();
    for (const Detail& row : rows)
      assay::precheck::append_detail_row(written, row);
    const std::vector<Detail> again =
        assay::precheck::parse_details_csv(written, "again");
    if (again.size() != rows.size()) std::abort();
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!same(rows[i].rmse, again[i].rmse) ||
          !same(rows[i].cosine, again[i].cosine) ||
          !same(rows[i].mean_ulp, again[i].mean_ulp))
        std::abort();
  } catch (const assay::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
