#include "assay/precheck/ratio/csv.h"

#include <array>
#include <string>
#include <string_view>

#include "assay/base/atomic_file.h"
#include "assay/base/csv.h"
#include "assay/base/text_out.h"
#include "assay/precheck/detail/row_name.h"

namespace assay::precheck {
namespace {

constexpr std::string_view kDetailsHeading =
    "\xef\xbb\xbf"
    "API Name,小值域错误比值,小值域判定结果,均方根误差比值,"
    "均方根误差判定结果,相对误差最大值比值,相对误差最大值判定结果,"
    "相对误差平均值比值,相对误差平均值判定结果,误差均衡性比值,"
    "误差均衡性判定结果,inf/nan错误率,inf/nan判定结果,相对误差错误率,"
    "相对误差判定结果,绝对误差错误率,绝对误差判定结果,二进制一致错误率,"
    "二进制一致错误率判定结果,ULP误差平均值,ULP误差大于阈值占比,"
    "ULP误差大于阈值占比比值,ULP误差判定结果,双千指标,双千指标判定结果,"
    "比对结果,比对算法,Message\n";
constexpr std::string_view kResultHeading =
    "\xef\xbb\xbf"
    "API Name,Forward Test Success,Backward Test Success,Message\n";
constexpr std::size_t kFlush = 1 << 20;

std::string_view status_of(Verdict verdict) {
  if (verdict == Verdict::kMatch) return "pass";
  return verdict == Verdict::kMismatch ? "error" : "SKIP";
}

void append_value(std::string& out, const std::optional<double>& value) {
  out += ',';
  if (value) {
    append_double(out, *value);
  } else {
    out += ' ';
  }
}

void append_status(std::string& out, const std::optional<Verdict>& verdict) {
  out += ',';
  out += verdict ? status_of(*verdict) : " ";
}

void append_cell(std::string& out, const RatioCell& cell) {
  append_value(out, cell.value);
  append_status(out, cell.verdict);
}

// What decided, and what msprobe says where that is something else.
std::string message_of(const std::vector<Reason>& reasons) {
  std::string text;
  for (const Reason& reason : reasons) {
    if (reason.note && reason.criterion != "msprobe") continue;
    text += (text.empty() ? "" : "; ") + reason.text;
  }
  return text;
}

void append_message(std::string& out, const std::string& message) {
  out += ',';
  if (message.empty()) out += ' ';
  append_csv_text(out, message);
  out += '\n';
}

void append_details(std::string& out, const RatioRow& row,
                    const std::vector<Reason>& reasons) {
  append_csv_text(out, row.name);
  for (const RatioCell* cell :
       {&row.small_value, &row.rmse, &row.max_rel, &row.mean_rel, &row.balance,
        &row.inf_nan, &row.rel_error, &row.abs_error, &row.binary})
    append_cell(out, *cell);
  append_value(out, row.mean_ulp);
  append_value(out, row.ulp_share);
  append_cell(out, row.ulp);
  append_cell(out, row.thousandth);
  append_status(out, row.judgement.verdict);
  out += ',';
  out += row.rule ? msprobe_name(*row.rule) : " ";
  append_message(out, message_of(reasons));
}

// The outputs of one direction of a call.
struct Direction {
  std::optional<Verdict> worst;
  void add(Verdict verdict) {
    const auto rank = [](Verdict v) {
      return v == Verdict::kMismatch     ? 3
             : v == Verdict::kIncomplete ? 2
             : v == Verdict::kMatch      ? 1
                                         : 0;
    };
    if (!worst || rank(verdict) > rank(*worst)) worst = verdict;
  }
};

void append_result(std::string& out, const RatioResult& result,
                   const OpRow& op) {
  Direction forward, backward;
  std::string message;
  for (std::uint32_t i = 0; i < op.row_count; ++i) {
    const std::size_t at = op.first_row + i;
    const RatioRow& row = result.rows[at];
    const std::optional<RowName> name = parse_row_name(row.name);
    (name && name->backward ? backward : forward).add(row.judgement.verdict);
    const Reason* why = deciding_reason(result.comparison.rows[at]);
    if (why == nullptr) continue;
    message += (message.empty() ? "" : "; ") + why->text;
  }
  append_csv_text(out, op.name);
  append_status(out, forward.worst);
  append_status(out, backward.worst);
  append_message(out, message);
}

template <typename Append>
void write_rows(const std::filesystem::path& path, std::string_view heading,
                std::size_t count, Append append) {
  AtomicFile file(path);
  std::string text(heading);
  for (std::size_t i = 0; i < count; ++i) {
    append(text, i);
    if (text.size() < kFlush) continue;
    file.write(text);
    text.clear();
  }
  file.write(text);
  file.commit();
}

}  // namespace

void write_ratio_details(const std::filesystem::path& path,
                         const RatioResult& result) {
  write_rows(path, kDetailsHeading, result.rows.size(),
             [&](std::string& out, std::size_t i) {
               append_details(out, result.rows[i],
                              result.comparison.rows[i].reasons);
             });
}

void write_ratio_result(const std::filesystem::path& path,
                        const RatioResult& result) {
  const auto& groups = result.comparison.groups;
  write_rows(path, kResultHeading, groups.empty() ? 0 : groups[0].ops.size(),
             [&](std::string& out, std::size_t i) {
               append_result(out, result, groups[0].ops[i]);
             });
}

}  // namespace assay::precheck
