#include "assay/report/row_journal.h"

#include <cerrno>
#include <cstring>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/report/json_object.h"
#include "assay/report/json_row.h"

namespace assay {

RowJournal::RowJournal(const std::filesystem::path& path)
    : path_(path), file_(std::fopen(path.c_str(), "wx")) {
  if (!file_) {
    throw Error(Code::kUnreadable,
                printable(path.string()) + ": " + std::strerror(errno));
  }
}

RowJournal::~RowJournal() { std::fclose(file_); }

void RowJournal::line(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
      std::fputc('\n', file_) != EOF && std::fflush(file_) == 0) {
    return;
  }
  throw Error(Code::kUnreadable,
              printable(path_.string()) + ": " + std::strerror(errno));
}

void RowJournal::row(const Comparison& comparison, const Row& row,
                     const perturbation::Place& place) {
  std::string text;
  {
    JsonScope object(text, '{');
    object.text("api", place.api);
    append_json_row(comparison, row, object.key("row"));
  }
  line(text);
}

void RowJournal::counts(const perturbation::Collection& collection) {
  std::string text;
  {
    JsonScope object(text, '{');
    object.integer("left_out", collection.left_out());
    JsonScope list(object.key("skipped"), '[');
    for (const perturbation::Skipped& skip : collection.skipped()) {
      JsonScope one(list.element(), '{');
      one.text("api", skip.api);
      one.text("why", skip.why);
      one.word("verdict", to_string(skip.verdict));
      one.integer("calls", skip.calls);
    }
  }
  line(text);
}

void RowJournal::warning(const std::string& text) {
  std::string out;
  {
    JsonScope object(out, '{');
    object.text("warning", text);
  }
  line(out);
}

}  // namespace assay
