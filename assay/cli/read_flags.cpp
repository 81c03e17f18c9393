#include "assay/cli/read_flags.h"

#include <charconv>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {
namespace {

DType dtype_of(const std::string& text) {
  if (const auto dtype = parse_dtype(text)) return *dtype;
  std::vector<std::string> names;
  for (const DTypeTraits& t : kDTypes) names.emplace_back(t.name);
  const std::string near = closest(text, names);
  throw Error(Code::kUsage, "--dtype: unknown dtype '" + printable(text) + "'" +
                                (near.empty() ? "" : ", did you mean " + near) +
                                "?");
}

// "4,6", "4x6", "[4, 6]"; "" or "[]" is 0-d.
Shape shape_of(const std::string& text) {
  std::string clean;
  for (const char c : text) {
    if (c == 'x' || c == 'X') {
      clean += ',';
    } else if (std::string_view("[]() ").find(c) == std::string_view::npos) {
      clean += c;
    }
  }
  Shape shape;
  if (clean.empty()) return shape;
  for (const std::string_view part : split(clean, ',')) {
    std::int64_t dim = -1;
    const auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), dim);
    if (error != std::errc{} || end != part.data() + part.size() || dim < 0) {
      throw Error(Code::kUsage, "--shape: '" + printable(text) +
                                    "' is no list of sizes like 4,6");
    }
    shape.push_back(dim);
  }
  return shape;
}

}  // namespace

void ReadFlags::declare(Args& args) {
  args.option("--dtype", "DTYPE",
              "dtype of raw .bin files and of .npy files that hide theirs "
              "(bf16, fp8): float32, bf16, e4m3fn ...",
              &dtype, Completes::kDType);
  args.option("--shape", "4,6", "shape of raw .bin files", &shape);
  args.flag("--big-endian", "raw .bin files are big-endian", &big_endian);
}

TraceReadOptions ReadFlags::options() const {
  TraceReadOptions options;
  if (!dtype.empty()) options.raw.dtype = dtype_of(dtype);
  if (!shape.empty()) options.raw.shape = shape_of(shape);
  options.raw.big_endian = big_endian;
  return options;
}

}  // namespace assay
