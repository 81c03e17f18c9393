#include "assay/formats/npy_descr.h"

#include <charconv>
#include <string>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr std::string_view kObjects =
    "the object dtype, whose data is a pickle and could run code";
constexpr std::uint64_t kMaxElementBytes = std::uint64_t{1} << 31;

bool is_order(char c) { return c == '<' || c == '>' || c == '|' || c == '='; }

struct Descr {
  char order = '<';
  char kind = '\0';
  std::uint64_t size = 0;
};

// Splits "<f4". Datetimes carry a unit, "<M8[ns]", which is dropped.
Descr split_descr(std::string_view text, std::string_view file,
                  std::uint64_t offset) {
  Descr descr;
  std::string_view rest = text;
  if (!rest.empty() && is_order(rest[0])) {
    descr.order = rest[0];
    rest.remove_prefix(1);
  }
  if (!rest.empty()) {
    descr.kind = rest[0];
    rest.remove_prefix(1);
  }
  if (descr.kind == 'M' || descr.kind == 'm') {
    rest = rest.substr(0, rest.find('['));
  }
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), descr.size);
  const bool whole = end == rest.data() + rest.size() && error == std::errc();
  const bool object = descr.kind == 'O' && rest.empty();
  if ((!whole && !object) || descr.size > kMaxElementBytes) {
    refuse(file, offset, "descr '" + printable(text.substr(0, 40)) + "'",
           "a numpy dtype such as '<f4'");
  }
  return descr;
}

std::optional<DType> find_dtype(const Descr& descr) {
  const std::string name = descr.kind + std::to_string(descr.size);
  for (const DTypeTraits& row : kDTypes) {
    if (!row.numpy.empty() && row.numpy == name) return row.id;
  }
  return std::nullopt;
}

}  // namespace

void apply_npy_descr(std::string_view text, std::string_view file,
                     std::uint64_t offset, NpyHeader& header) {
  const Descr descr = split_descr(text, file, offset);
  if (descr.kind == 'O') refuse(file, offset, kObjects, "a numeric dtype");
  header.element_bytes = descr.size * (descr.kind == 'U' ? 4 : 1);
  header.order = descr.order == '>' ? std::endian::big : std::endian::little;
  header.dtype = find_dtype(descr);
  if (header.dtype) return;
  // ml_dtypes: bfloat16 is "<V2", the fp8 types are "|V1" or "<f1".
  header.is_void = descr.size > 0 && (descr.kind == 'V' ||
                                      (descr.kind == 'f' && descr.size == 1));
  if (header.is_void) return;
  if (std::string_view("biufcSUMmV").find(descr.kind) ==
      std::string_view::npos) {
    refuse(file, offset, "descr '" + printable(text.substr(0, 40)) + "'",
           "one of the kinds b i u f c V S U M m");
  }
  header.unsupported = "dtype '" + printable(text.substr(0, 40)) +
                       "' is not one that can be compared";
}

void refuse_object_fields(std::string_view fields, std::string_view file,
                          std::uint64_t offset) {
  for (const char* spelling : {"'O'", "\"O\"", "'|O'", "\"|O\"", "'O8'",
                               "'|O8'", "\"|O8\"", "\"O8\""}) {
    if (fields.find(spelling) != std::string_view::npos) {
      refuse(file, offset, kObjects, "numeric fields");
    }
  }
}

}  // namespace assay
