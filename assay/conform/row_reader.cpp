#include "assay/conform/row_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/report/row_view.h"

namespace assay::conform {
namespace {

const Value& member(const Value& object, std::string_view key) {
  if (const Value* found = object.find(key)) return *found;
  throw Error(Code::kRefused, fmt::format("no \"{}\"", key));
}

std::string text_or_empty(const Value& object, std::string_view key) {
  const Value* found = object.find(key);
  return found ? found->text() : "";
}

std::int64_t integer_or(const Value& object, std::string_view key,
                        std::int64_t otherwise) {
  const Value* found = object.find(key);
  return found ? found->integer() : otherwise;
}

// The report writes what is not finite as a word.
double figure(const Value& value) {
  if (value.is_number()) return value.number();
  const std::string& word = value.text();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error(Code::kRefused, printable(word) + ", expected a number");
}

double figure_or_zero(const Value& object, std::string_view key) {
  const Value* found = object.find(key);
  return found && !found->is_null() ? figure(*found) : 0;
}

template <typename Enum>
Enum word(const Value& object, std::string_view key, Enum last,
          std::string_view (*spelled)(Enum)) {
  const std::string& text = member(object, key).text();
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (spelled(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  throw Error(Code::kRefused, fmt::format("{}: {}", key, printable(text)));
}

Verdict verdict_in(const Value& object) {
  return word<Verdict>(object, "verdict", Verdict::kEmpty, &to_string);
}

Shape shape_in(const Value& side) {
  Shape shape;
  for (const Value& size : member(side, "shape").list()) {
    if (size.integer() < 0) throw Error(Code::kRefused, "a negative size");
    shape.push_back(size.integer());
  }
  return shape;
}

RowSide side_in(const Value& side, std::string name) {
  RowSide read;
  read.present = true;
  read.name = std::move(name);
  read.facts.dtype_text = text_or_empty(side, "dtype");
  read.facts.dtype = parse_dtype(read.facts.dtype_text);
  read.facts.shape = shape_in(side);
  const auto statistic = [&](std::string_view key) {
    const Value* found = side.find(key);
    return found && !found->is_null() ? std::optional(figure(*found))
                                      : std::nullopt;
  };
  read.stats = {statistic("max"), statistic("min"), statistic("mean"),
                statistic("norm")};
  read.digest = text_or_empty(side, "digest");
  read.value = text_or_empty(side, "value");
  read.file = text_or_empty(side, "file");
  return read;
}

SideStats measured_in(const RowSide& side, const Value& object) {
  SideStats stats;
  stats.max = side.stats.max.value_or(0);
  stats.min = side.stats.min.value_or(0);
  stats.mean = side.stats.mean.value_or(0);
  stats.l2 = side.stats.norm.value_or(0);
  stats.nan = integer_or(object, "nan", 0);
  stats.pos_inf = integer_or(object, "pos_inf", 0);
  stats.neg_inf = integer_or(object, "neg_inf", 0);
  return stats;
}

// The flat index of a reason's "index", of which a complex one has a
// "component".
std::int64_t flat_index(const Row& row, const Value& object) {
  const Value* found = object.find("index");
  if (!found) return -1;
  const Shape& shape = index_shape(row);
  const List& index = found->list();
  if (index.size() != shape.size())
    throw Error(Code::kRefused, "an index of another rank than the shape");
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t at = index[i].integer();
    if (at < 0 || at >= std::max<std::int64_t>(shape[i], 1))
      throw Error(Code::kRefused, "an index outside of the shape");
    flat = flat * std::max<std::int64_t>(shape[i], 1) + at;
  }
  if (!has_complex_components(row)) return flat;
  return 2 * flat + (text_or_empty(object, "component") == "imag" ? 1 : 0);
}

void histogram_in(const Value& object, std::string_view key, int first,
                  std::array<std::int64_t, 64>& counts) {
  for (const Value& pair : member(object, key).list()) {
    if (pair.list().size() != 2)
      throw Error(Code::kRefused, "a bucket that is no pair");
    const std::int64_t at = pair.list()[0].integer() - first;
    if (at < 0 || at >= 64)
      throw Error(Code::kRefused, "a bucket that there is not");
    counts[static_cast<std::size_t>(at)] = pair.list()[1].integer();
  }
}

void block_in(const Value& object, std::string_view key, WorstBlock& block) {
  const Value* found = object.find(key);
  if (!found) return;
  block.begin = member(*found, "begin").integer();
  block.rmse = figure_or_zero(*found, "rmse");
  block.golden_rms = figure_or_zero(*found, "golden_rms");
}

std::unique_ptr<DetailStats> detail_in(const Value& object) {
  if (!object.find("worst_excess")) return nullptr;
  auto detail = std::make_unique<DetailStats>();
  detail->ulp_max = figure_or_zero(object, "ulp_max");
  detail->ulp_mean = figure_or_zero(object, "ulp_mean");
  detail->share_rel_over_1e3 = figure_or_zero(object, "share_rel_over_1e3");
  detail->share_rel_over_5e3 = figure_or_zero(object, "share_rel_over_5e3");
  detail->over_bound = integer_or(object, "over_bound", 0);
  detail->worst_excess = figure_or_zero(object, "worst_excess");
  histogram_in(object, "rel_histogram", -64, detail->rel_histogram);
  histogram_in(object, "ulp_histogram", 0, detail->ulp_histogram);
  block_in(object, "worst_block32", detail->block32);
  block_in(object, "worst_block128", detail->block128);
  return detail;
}

void figures_in(const Value& object, ErrorStats& stats) {
  stats.max_abs = figure_or_zero(object, "max_abs");
  stats.mean_abs = figure_or_zero(object, "mean_abs");
  stats.max_rel = figure_or_zero(object, "max_rel");
  stats.mean_rel = figure_or_zero(object, "mean_rel");
  stats.rmse = figure_or_zero(object, "rmse");
  stats.norm_l2 = figure_or_zero(object, "norm_l2");
  stats.sqnr_db = figure_or_zero(object, "sqnr");
  stats.cosine = figure_or_zero(object, "cosine");
  stats.bias = figure_or_zero(object, "bias");
  stats.alpha = figure_or_zero(object, "alpha");
}

void difference_in(const Value& object, ErrorStats& stats) {
  stats.max_abs_index = integer_or(object, "flat_index", -1);
  stats.golden_at_max_abs = figure_or_zero(object, "golden_at_index");
  stats.target_at_max_abs = figure_or_zero(object, "target_at_index");
  stats.mismatches = integer_or(object, "mismatches", 0);
  stats.nonfinite_mismatches = integer_or(object, "nonfinite_mismatches", 0);
  stats.zero_sign_flips = integer_or(object, "zero_sign_flips", 0);
  stats.sign_flips = integer_or(object, "sign_flips", 0);
  const std::string name = text_or_empty(object, "judged_dtype");
  const auto judged = parse_dtype(name);
  if (!judged) throw Error(Code::kRefused, "judged_dtype: " + printable(name));
  stats.judged_dtype = *judged;
  const Value* rounded = object.find("golden_rounded");
  stats.golden_rounded = rounded && rounded->boolean();
  // Integers of 64 bit may be beyond the ones that Value holds; the figure
  // that is shown then is the double.
  const Value* exact = object.find("max_abs_int");
  if (exact && exact->is_integer() && exact->integer() >= 0)
    stats.max_abs_int = static_cast<std::uint64_t>(exact->integer());
}

std::unique_ptr<ErrorStats> stats_in(const Row& row, const Value& object) {
  if (!object.find("count")) return nullptr;
  auto stats = std::make_unique<ErrorStats>();
  stats->count = member(object, "count").integer();
  stats->finite = member(object, "finite").integer();
  stats->bitwise_equal = member(object, "bitwise_equal").boolean();
  stats->golden = measured_in(row.golden, member(object, "golden"));
  stats->target = measured_in(row.target, member(object, "target"));
  figures_in(object, *stats);
  stats->judged_dtype = row.target.facts.dtype.value_or(DType::kF32);
  if (!stats->bitwise_equal) {
    difference_in(object, *stats);
    stats->detail = detail_in(object);
  }
  return stats;
}

Reason reason_in(const Row& row, const Value& object) {
  Reason reason;
  reason.criterion = member(object, "criterion").text();
  reason.text = member(object, "text").text();
  reason.figure = figure_or_zero(object, "figure");
  reason.bound = figure_or_zero(object, "bound");
  reason.note = member(object, "note").boolean();
  reason.index = flat_index(row, object);
  return reason;
}

void add_line(const Value& line, perturbation::Collection& into) {
  if (const Value* warning = line.find("warning"))
    return into.warn(warning->text());
  if (const Value* row = line.find("row")) {
    into.step(member(*row, "step").integer());
    into.add(row_from_json(*row),
             {member(*row, "op").text(), member(line, "api").text(), ""});
    return;
  }
  into.clear_counts();
  into.left_out(member(line, "left_out").integer());
  for (const Value& skip : member(line, "skipped").list()) {
    into.skip(member(skip, "api").text(), member(skip, "why").text(),
              verdict_in(skip), member(skip, "calls").integer());
  }
}

}  // namespace

Row row_from_json(const Value& value) {
  Row row;
  const std::string& name = member(value, "name").text();
  row.role = word<Role>(value, "role", Role::kTensor, &role_text);
  row.verdict = verdict_in(value);
  row.evidence = word<Evidence>(value, "evidence", Evidence::kNone, &to_string);
  row.origin = word<Origin>(value, "origin", Origin::kUndetermined, &to_string);
  const Value* tensor = value.find("is_tensor");
  row.is_tensor = !tensor || tensor->boolean();
  if (const Value* golden = value.find("golden"))
    row.golden = side_in(*golden, name);
  if (const Value* target = value.find("target")) {
    const std::string other = text_or_empty(value, "target_name");
    row.target = side_in(*target, other.empty() ? name : other);
  }
  for (const Value& reason : member(value, "reasons").list())
    row.reasons.push_back(reason_in(row, reason));
  row.stats = stats_in(row, value);
  const Value* amplification = value.find("amplification");
  if (amplification) row.amplification = figure(*amplification);
  row.cause = text_or_empty(value, "cause");
  return row;
}

void read_row_journal(const std::filesystem::path& path,
                      perturbation::Collection& into) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(Code::kUnreadable, printable(path.string()) + ": no journal");
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) return;  // no line end: it was cut short
    try {
      add_line(parse_json(line, "a line"), into);
    } catch (const Error& error) {
      into.skip("journal",
                std::string("a row cannot be read back: ") + error.what(),
                Verdict::kIncomplete);
    }
  }
}

}  // namespace assay::conform
