#include "assay/conform/api/contract_report.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "assay/base/text.h"
#include "assay/report/markup.h"

namespace assay::conform {
namespace {

constexpr std::array kChanges = {Change::kMissing, Change::kMoved,
                                 Change::kChanged, Change::kNotCompared,
                                 Change::kAdded};

std::string finding_line(const ContractFinding& one) {
  std::string line = one.what + ":";
  if (!one.expected.empty()) line += " expected " + one.expected + ",";
  return printable(line + " found " + one.found);
}

bool is_mismatch(Change change) {
  return change != Change::kNotCompared && change != Change::kAdded;
}

}  // namespace

std::string contract_text(const ContractCheck& check,
                          const ContractSides& sides, bool all) {
  std::string text =
      fmt::format("{}  {} against {}: {} symbols, {} things compared\n",
                  to_string(check.verdict()), printable(sides.target),
                  printable(sides.golden), check.symbols, check.things);
  for (const ContractFinding& one : check.findings) {
    if (one.change == Change::kAdded && !all) continue;
    text += fmt::format("{:<12}  {}  {}\n", to_string(one.change),
                        printable(one.symbol), finding_line(one));
  }
  for (const Change change : kChanges) {
    text += fmt::format("{}{} {}", change == kChanges.front() ? "" : "   ",
                        to_string(change), check.count(change));
  }
  return text + "\n";
}

Value contract_json(const ContractCheck& check, const ContractSides& sides) {
  Object counts;
  for (const Change change : kChanges) {
    counts[std::string(to_string(change))] = check.count(change);
  }
  List findings;
  for (const ContractFinding& one : check.findings) {
    findings.push_back(Object{{"change", to_string(one.change)},
                              {"symbol", one.symbol},
                              {"what", one.what},
                              {"expected", one.expected},
                              {"found", one.found}});
  }
  return Object{
      {"assay_api_check", 1},        {"verdict", to_string(check.verdict())},
      {"golden", sides.golden},      {"target", sides.target},
      {"symbols", check.symbols},    {"compared", check.things},
      {"counts", std::move(counts)}, {"findings", std::move(findings)}};
}

std::string contract_junit(const ContractCheck& check,
                           const ContractSides& sides) {
  struct Case {
    bool mismatch = false;
    std::string text;
  };
  std::map<std::string, Case> failed;
  for (const ContractFinding& one : check.findings) {
    if (one.change == Change::kAdded) continue;
    Case& entry = failed[one.symbol];
    entry.mismatch = entry.mismatch || is_mismatch(one.change);
    entry.text += finding_line(one) + "\n";
  }
  std::string body;
  for (const auto& [symbol, entry] : failed) {
    body += fmt::format(
        "    <testcase classname=\"api\" name=\"{}\">\n"
        "      <failure type=\"{}\">{}</failure>\n    </testcase>\n",
        xml_text(symbol), entry.mismatch ? "mismatch" : "incomplete",
        xml_text(entry.text));
  }
  const bool empty = check.things == 0;
  body += fmt::format(
      "    <testcase classname=\"api\" name=\"all other symbols\"{}\n",
      empty ? "><failure type=\"incomplete\">nothing was compared</failure>"
              "</testcase>"
            : "/>");
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"{} against {}\" tests=\"{}\" failures=\"{}\">\n"
      "{}  </testsuite>\n</testsuites>\n",
      xml_text(sides.target), xml_text(sides.golden), failed.size() + 1,
      failed.size() + empty, body);
}

}  // namespace assay::conform
