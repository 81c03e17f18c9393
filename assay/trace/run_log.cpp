#include "assay/trace/run_log.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/trace/run_log_lines.h"

namespace assay {
namespace {

class LogReader {
 public:
  LogReader(std::string_view text, const std::string& path) : text_(text) {
    log_.path = path;
  }

  RunLog read() {
    const std::size_t first = text_.find_first_not_of(" \t\r\n");
    const bool json = first != text_.npos && text_[first] == '{';
    while (!text_.empty()) {
      ++number_;
      const std::size_t end = text_.find('\n');
      const bool last = end == text_.npos;
      const std::string_view line = text_.substr(0, end);
      text_.remove_prefix(last ? text_.size() : end + 1);
      if (trim(line).empty()) continue;
      if (last)
        read_cut(line, json);
      else
        read_whole(line, json);
    }
    finish();
    return std::move(log_);
  }

 private:
  std::string where() const {
    return printable(log_.path) + ": line " + std::to_string(number_);
  }

  void read_whole(std::string_view line, bool json) {
    try {
      read_line(line, json);
    } catch (const Error& error) {
      if (error.code() != Code::kUnreadable) throw;
      refuse(where(), line.size(), "the end of the line",
             "the rest of its JSON object");
    }
  }

  // A line without its newline may be all that a killed run left of it.
  void read_cut(std::string_view line, bool json) {
    try {
      read_line(line, json);
    } catch (const Error& error) {
      if (number_ == 1) throw;
      log_.warnings.push_back(where() + " is cut off after " +
                              std::to_string(line.size()) + " bytes: left out");
    }
  }

  void read_line(std::string_view line, bool json) {
    RunStep step;
    if (json) {
      std::vector<std::pair<std::string, std::string>> facts;
      if (!parse_json_step(line, where(), step, facts)) {
        if (log_.facts.empty()) log_.facts = std::move(facts);
        return;
      }
    } else if (!csv_) {
      csv_.emplace(line, where());
      return;
    } else {
      step = csv_->parse(line, where());
    }
    add(step);
  }

  void add(const RunStep& step) {
    std::vector<RunStep>& steps = log_.steps;
    if (!steps.empty() && step.step <= steps.back().step) {
      const auto from =
          std::ranges::lower_bound(steps, step.step, {}, &RunStep::step);
      replaced_ += steps.end() - from;
      if (first_replaced_ < 0) first_replaced_ = step.step;
      steps.erase(from, steps.end());
    }
    steps.push_back(step);
  }

  void finish() {
    if (log_.steps.empty())
      throw Error(Code::kRefused, printable(log_.path) + ": holds no step");
    if (replaced_ > 0)
      log_.warnings.push_back(printable(log_.path) + ": " +
                              human_count(replaced_) +
                              (replaced_ == 1 ? " step" : " steps") +
                              " from step " + std::to_string(first_replaced_) +
                              " on are logged again: the later ones count");
  }

  std::string_view text_;
  RunLog log_;
  std::optional<CsvSteps> csv_;
  std::int64_t number_ = 0, replaced_ = 0, first_replaced_ = -1;
};

}  // namespace

std::optional<Figure> figure_named(std::string_view name) {
  for (std::size_t i = 0; i < kFigures; ++i)
    if (kFigureNames[i] == name) return static_cast<Figure>(i);
  return std::nullopt;
}

bool RunLog::has(Figure figure) const {
  return std::ranges::any_of(
      steps, [figure](const RunStep& s) { return s.has(figure); });
}

RunLog parse_run_log(std::string_view text, const std::string& path) {
  return LogReader(text, path).read();
}

RunLog read_run_log(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  RunLog log = parse_run_log(as_text(file->bytes()), path.string());
  file->check_intact();
  return log;
}

}  // namespace assay
