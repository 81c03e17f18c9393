#include "assay/precheck/row_json.h"

#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "assay/base/error.h"

namespace assay::precheck {
namespace {

using conform::List;
using conform::Object;
using conform::Value;

// The members of every struct, listed once for both directions.
template <typename F>
void members(SideStats& s, F f) {
  f("nan", s.nan);
  f("pos_inf", s.pos_inf);
  f("neg_inf", s.neg_inf);
  f("min", s.min);
  f("max", s.max);
  f("mean", s.mean);
  f("l2", s.l2);
}

template <typename F>
void members(WorstBlock& b, F f) {
  f("begin", b.begin);
  f("rmse", b.rmse);
  f("golden_rms", b.golden_rms);
}

template <typename F>
void members(DetailStats& d, F f) {
  f("ulp_max", d.ulp_max);
  f("ulp_mean", d.ulp_mean);
  f("ulp_max_index", d.ulp_max_index);
  f("share_rel_over_1e3", d.share_rel_over_1e3);
  f("share_rel_over_5e3", d.share_rel_over_5e3);
  f("rel_histogram", d.rel_histogram);
  f("ulp_histogram", d.ulp_histogram);
  f("block32", d.block32);
  f("block128", d.block128);
  f("over_bound", d.over_bound);
  f("worst_excess", d.worst_excess);
  f("worst_excess_index", d.worst_excess_index);
  f("small_count", d.small_count);
  f("small_errors", d.small_errors);
  f("large_max_rel", d.large_max_rel);
  f("large_mean_rel", d.large_mean_rel);
  f("large_rmse", d.large_rmse);
}

template <typename F>
void members(ErrorStats& s, F f) {
  f("count", s.count);
  f("finite", s.finite);
  f("bitwise_equal", s.bitwise_equal);
  f("judged_dtype", s.judged_dtype);
  f("golden_rounded", s.golden_rounded);
  f("golden", s.golden);
  f("target", s.target);
  f("mismatches", s.mismatches);
  f("nonfinite_mismatches", s.nonfinite_mismatches);
  f("first_nonfinite_mismatch", s.first_nonfinite_mismatch);
  f("zero_sign_flips", s.zero_sign_flips);
  f("sign_flips", s.sign_flips);
  f("max_abs", s.max_abs);
  f("max_abs_index", s.max_abs_index);
  f("golden_at_max_abs", s.golden_at_max_abs);
  f("target_at_max_abs", s.target_at_max_abs);
  f("max_abs_int", s.max_abs_int);
  f("mean_abs", s.mean_abs);
  f("max_rel", s.max_rel);
  f("max_rel_index", s.max_rel_index);
  f("mean_rel", s.mean_rel);
  f("rmse", s.rmse);
  f("norm_l2", s.norm_l2);
  f("sqnr_db", s.sqnr_db);
  f("cosine", s.cosine);
  f("bias", s.bias);
  f("alpha", s.alpha);
  f("detail", s.detail);
}

template <typename F>
void members(Reason& r, F f) {
  f("criterion", r.criterion);
  f("text", r.text);
  f("figure", r.figure);
  f("bound", r.bound);
  f("index", r.index);
  f("note", r.note);
}

template <typename F>
void members(TensorStatistics& s, F f) {
  f("max", s.max);
  f("min", s.min);
  f("mean", s.mean);
  f("norm", s.norm);
}

template <typename F>
void members(SideFacts& s, F f) {
  f("dtype", s.dtype);
  f("dtype_text", s.dtype_text);
  f("shape", s.shape);
  f("requires_grad", s.requires_grad);
}

template <typename F>
void members(RowSide& s, F f) {
  f("present", s.present);
  f("name", s.name);
  f("facts", s.facts);
  f("stats", s.stats);
  f("digest", s.digest);
  f("value", s.value);
  f("file", s.file);
}

template <typename F>
void members(Detail& d, F f) {
  f("name", d.name);
  f("bench_dtype", d.bench_dtype);
  f("device_dtype", d.device_dtype);
  f("shape", d.shape);
  f("cosine", d.cosine);
  f("max_abs", d.max_abs);
  f("hundredth", d.hundredth);
  f("thousandth", d.thousandth);
  f("ten_thousandth", d.ten_thousandth);
  f("binary_error_rate", d.binary_error_rate);
  f("error_balance", d.error_balance);
  f("rmse", d.rmse);
  f("small_value_error_ratio", d.small_value_error_ratio);
  f("max_rel", d.max_rel);
  f("mean_rel", d.mean_rel);
  f("inf_nan_error_ratio", d.inf_nan_error_ratio);
  f("rel_error_ratio", d.rel_error_ratio);
  f("abs_error_ratio", d.abs_error_ratio);
  f("max_ulp", d.max_ulp);
  f("mean_ulp", d.mean_ulp);
  f("ulp_over_threshold", d.ulp_over_threshold);
  f("status", d.status);
  f("message", d.message);
  f("elements", d.elements);
  f("golden_is_zero", d.golden_is_zero);
  f("device_is_zero", d.device_is_zero);
}

template <typename F>
void members(JudgedRow& j, F f) {
  f("backward", j.backward);
  f("detail", j.detail);
  Row& r = j.row;
  f("role", r.role);
  f("is_tensor", r.is_tensor);
  f("golden", r.golden);
  f("target", r.target);
  f("verdict", r.verdict);
  f("evidence", r.evidence);
  f("reasons", r.reasons);
  f("origin", r.origin);
  f("stats", r.stats);
  f("cause", r.cause);
}

template <typename T>
concept Optional = requires(T& t) {
  t.has_value();
  t.emplace();
};
template <typename T>
concept Pointer = requires(T& t) {
  t.reset();
}
&&!Optional<T>;
template <typename T>
concept Sequence = requires(T& t) {
  t.begin();
  t.size();
}
&&!std::same_as<T, std::string>;

template <typename T>
Value written(const T& value) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, std::string> ||
                std::same_as<T, std::int64_t> || std::same_as<T, double>) {
    return Value(value);
  } else if constexpr (std::same_as<T, std::uint64_t>) {
    return Value(std::to_string(value));  // JSON's integers end at 2^63
  } else if constexpr (std::is_enum_v<T>) {
    return Value(static_cast<std::int64_t>(value));
  } else if constexpr (Optional<T>) {
    return value ? written(*value) : Value();
  } else if constexpr (Pointer<T>) {
    return value ? written(*value) : Value();
  } else if constexpr (Sequence<T>) {
    List list;
    for (const auto& item : value) list.push_back(written(item));
    return list;
  } else {
    Object object;
    // members() takes what it may fill; here it only looks.
    members(const_cast<T&>(value), [&](const char* name, const auto& member) {
      object[name] = written(member);
    });
    return object;
  }
}

[[noreturn]] void refuse(const Value& value) {
  const std::string text = to_json(value);
  throw Error(Code::kRefused, "journal: " + text.substr(0, 80) +
                                  ", expected another type of value");
}

// The whole text as a number.
template <typename T>
T parsed(const Value& value, const std::string& text) {
  T number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) refuse(value);
  return number;
}

double number_in(const Value& value) {
  if (value.is_number()) return value.number();
  if (!value.is_text()) refuse(value);
  const std::string& text = value.text();
  return parsed<double>(value, text);  // "nan", "inf" and "-inf"
}

template <typename E>
constexpr std::int64_t end_of() {
  if constexpr (std::same_as<E, DType>) return kDTypeCount;
  if constexpr (std::same_as<E, Role>) return 5;
  if constexpr (std::same_as<E, Verdict>) return 4;
  if constexpr (std::same_as<E, Evidence>) return 5;
  if constexpr (std::same_as<E, Origin>) return 6;
}

template <typename T>
void read(const Value& value, T& into) {
  if constexpr (std::same_as<T, bool>) {
    if (!value.is_bool()) refuse(value);
    into = value.boolean();
  } else if constexpr (std::same_as<T, std::string>) {
    if (!value.is_text()) refuse(value);
    into = value.text();
  } else if constexpr (std::same_as<T, std::int64_t>) {
    if (!value.is_integer()) refuse(value);
    into = value.integer();
  } else if constexpr (std::same_as<T, double>) {
    into = number_in(value);
  } else if constexpr (std::same_as<T, std::uint64_t>) {
    if (!value.is_text()) refuse(value);
    into = parsed<T>(value, value.text());
  } else if constexpr (std::is_enum_v<T>) {
    if (!value.is_integer() || value.integer() < 0 ||
        value.integer() >= end_of<T>())
      refuse(value);
    into = static_cast<T>(value.integer());
  } else if constexpr (Optional<T>) {
    if (!value.is_null()) read(value, into.emplace());
  } else if constexpr (Pointer<T>) {
    if (value.is_null()) return;
    into = std::make_unique<typename T::element_type>();
    read(value, *into);
  } else if constexpr (Sequence<T>) {
    if (!value.is_list()) refuse(value);
    if constexpr (requires { into.resize(0); })
      into.resize(value.list().size());
    if (into.size() != value.list().size()) refuse(value);
    for (std::size_t i = 0; i < into.size(); ++i)
      read(value.list()[i], into[i]);
  } else {
    members(into, [&](const char* name, auto& member) {
      const Value* found = value.find(name);
      if (!found) refuse(value);
      read(*found, member);
    });
  }
}

}  // namespace

Value rows_to_json(const std::vector<JudgedRow>& rows) { return written(rows); }

std::vector<JudgedRow> rows_from_json(const Value& value) {
  std::vector<JudgedRow> rows;
  read(value, rows);
  return rows;
}

}  // namespace assay::precheck
