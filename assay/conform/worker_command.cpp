#include "assay/conform/worker_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/python_side.h"

namespace assay::conform {
namespace {

// One word after the other out of a command line.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::optional<std::string> next() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ == text_.size()) return std::nullopt;
    std::string word;
    while (at_ < text_.size() && !is_blank(text_[at_])) take(word);
    return word;
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

  void take(std::string& word) {
    const char c = text_[at_++];
    if (c == '\'' || c == '"') {
      quoted(c, word);
    } else if (c == '\\') {
      if (at_ == text_.size()) fail("a backslash at its end");
      word += text_[at_++];
    } else {
      word += c;
    }
  }

  void quoted(char quote, std::string& word) {
    while (at_ < text_.size() && text_[at_] != quote) {
      const bool escape = quote == '"' && text_[at_] == '\\' &&
                          at_ + 1 < text_.size() &&
                          (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\');
      if (escape) ++at_;
      word += text_[at_++];
    }
    if (at_ == text_.size()) fail("a quote that is not closed");
    ++at_;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Code::kUsage,
                fmt::format("worker '{}': {}", printable(text_), what));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// What Open MPI needs on one machine, as tools/mpirun.sh has it: more ranks
// than cores, in containers and as root too.
const std::map<std::string, std::string>& mpi_environment() {
  static const std::map<std::string, std::string> kEnvironment{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
  };
  return kEnvironment;
}

// "python3 -m assay.worker", whatever stands around it: ours, wherever the
// package lies.
bool is_ours_in_python(const std::vector<std::string>& words) {
  const auto at = std::find(words.begin(), words.end(), "assay.worker");
  return at != words.end() && at != words.begin() && *(at - 1) == "-m";
}

// Without a Python side of this program the interpreter may have one.
std::map<std::string, std::string> python_environment() {
  try {
    return python_side().environment();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::vector<std::string> split_command_line(std::string_view text) {
  Splitter splitter(text);
  std::vector<std::string> words;
  while (std::optional<std::string> word = splitter.next())
    words.push_back(std::move(*word));
  if (words.empty())
    throw Error(Code::kUsage, "worker '': expected a name or a command line");
  return words;
}

std::string files_of(const WorkerCommand& command) {
  std::string text;
  for (const std::string& argument : command.arguments) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(argument, error)) continue;
    const auto size = std::filesystem::file_size(argument, error);
    const auto time = std::filesystem::last_write_time(argument, error);
    text += fmt::format("{} {} {}\n", argument, size,
                        time.time_since_epoch().count());
    if (&argument != &command.arguments.front()) break;
  }
  return text;
}

std::filesystem::path this_program() {
  std::error_code error;
  std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path("assay") : path;
}

WorkerCommand parse_worker_command(const std::string& text) {
  WorkerCommand command;
  command.text = text;
  const std::string name(trim(text));
  if (name == "reference" || name == "cpu") {
    command.arguments = {this_program().string(), "worker", "--provider", name};
  } else if (name == "torch" || name == "te") {
    const PythonSide python = python_side();
    command.arguments = {python.interpreter, "-m", "assay.worker", "--provider",
                         name};
    command.environment = python.environment();
  } else {
    command.arguments = split_command_line(text);
    if (command.arguments[0] == "assay")
      command.arguments[0] = this_program().string();
    if (is_ours_in_python(command.arguments))
      command.environment = python_environment();
  }
  return command;
}

WorkerCommand for_ranks(const WorkerCommand& command, int ranks,
                        std::string_view launcher) {
  if (launcher != "mpirun" && launcher != "self")
    throw Error(Code::kUnsupported,
                fmt::format("{}: cannot be started as {} ranks: its hello "
                            "names no launcher",
                            printable(command.text), ranks));
  WorkerCommand many = command;
  many.arguments.insert(many.arguments.end(),
                        {"--ranks", std::to_string(ranks)});
  if (launcher == "mpirun") {
    const char* mpiexec = std::getenv("MPIEXEC");
    const std::string start[] = {mpiexec ? mpiexec : "mpirun", "-n",
                                 std::to_string(ranks)};
    many.arguments.insert(many.arguments.begin(), std::begin(start),
                          std::end(start));
    many.environment.insert(mpi_environment().begin(), mpi_environment().end());
  }
  return many;
}

}  // namespace assay::conform
