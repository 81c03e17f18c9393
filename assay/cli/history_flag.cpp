#include "assay/cli/history_flag.h"

#include <fmt/format.h>

#include "assay/base/text.h"

namespace assay {

std::filesystem::path history_path(const std::string& file) {
  return file == "default" ? History::default_path()
                           : std::filesystem::path(file);
}

void HistoryFlag::declare(Args& args) {
  args.option("--history", "FILE",
              "keep this run in a history; default: that of assay history",
              &file, Completes::kPath);
}

void HistoryFlag::check() const {
  if (!file.empty()) History(history_path(file), History::Mode::kWrite);
}

std::string HistoryFlag::add(const std::function<HistoryRun()>& make) const {
  if (file.empty()) return "";
  const std::filesystem::path path = history_path(file);
  const History::Added added = History(path, History::Mode::kWrite).add(make());
  return fmt::format("history: run {} of {}\n", added.number,
                     printable(path.string()));
}

}  // namespace assay
