#include "assay/env/system_facts.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <thread>

#include "assay/base/text.h"

namespace assay::env {
namespace {

using std::filesystem::path;

constexpr std::size_t kMostBytes = 64 << 10;  // of a file of the system

std::optional<std::string> contents(const path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text(kMostBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// What follows `name` and the separator in the first line that begins so.
std::string field(const std::string& text, std::string_view name,
                  char separator) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t sign = line.find(separator);
    if (sign == line.npos || trim(line.substr(0, sign)) != name) continue;
    std::string_view value = trim(line.substr(sign + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return "";
}

void set(SectionFacts& facts, const std::string& key, std::string value,
         const std::string& from = "") {
  if (value.empty()) return;
  facts.values.insert_or_assign(key,
                                Value{Kind::kText, std::move(value), from});
}

// .git is a folder, or in a worktree a file that names one.
std::optional<path> git_folder(path folder) {
  std::error_code ignored;
  folder = std::filesystem::absolute(folder, ignored).lexically_normal();
  for (;; folder = folder.parent_path()) {
    const path git = folder / ".git";
    if (std::filesystem::is_directory(git, ignored)) return git;
    if (const auto text = contents(git)) {
      const path named = field(*text, "gitdir", ':');
      if (!named.empty()) return (folder / named).lexically_normal();
    }
    if (!folder.has_relative_path()) return std::nullopt;
  }
}

std::string resolved(const path& git, const std::string& reference) {
  std::vector<path> places = {git};
  if (const auto common = contents(git / "commondir"))
    places.push_back((git / std::string(trim(*common))).lexically_normal());
  for (const path& place : places) {
    if (const auto text = contents(place / reference))
      return std::string(trim(*text));
    const auto packed = contents(place / "packed-refs");
    if (!packed) continue;
    for (const std::string_view line : split(*packed, '\n'))
      if (line.ends_with(" " + reference))
        return std::string(line.substr(0, line.find(' ')));
  }
  return "";
}

bool is_commit(const std::string& text) {
  return text.size() >= 40 && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

void collect_git(const path& folder, SectionFacts& facts) {
  const auto git = git_folder(folder);
  if (!git) return;
  const auto head = contents(*git / "HEAD");
  if (!head) return;
  std::string commit(trim(*head));
  constexpr std::string_view kReference = "ref: ";
  if (commit.starts_with(kReference)) {
    const std::string reference = commit.substr(kReference.size());
    // "refs/heads/main", never a way out of the folder.
    if (!reference.starts_with("refs/") ||
        reference.find("..") != std::string::npos)
      return;
    commit = resolved(*git, reference);
  }
  if (is_commit(commit)) set(facts, "git.commit", commit);
}

std::string first_line(const std::optional<std::string>& text) {
  return text ? std::string(trim(split(*text, '\n').front())) : "";
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first of these folders that has the file, and the field in it.
std::string version_in(std::initializer_list<std::string> folders,
                       const path& file, std::string_view name,
                       char separator) {
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    const auto text = contents(path(folder) / file);
    if (!text) continue;
    const std::string found =
        name.empty() ? first_line(text) : field(*text, name, separator);
    if (!found.empty()) return found;
  }
  return "";
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...".
std::string nvidia_driver() {
  const auto text = contents("/proc/driver/nvidia/version");
  if (!text) return "";
  const std::string line = field(*text, "NVRM version", ':');
  for (const std::string_view word : split(line, ' '))
    if (!word.empty() && word.find_first_not_of("0123456789.") == word.npos &&
        word.find('.') != word.npos)
      return std::string(word);
  return "";
}

// {"cuda" : {"name" : "CUDA SDK", "version" : "12.4.1"}, ...}: the first one.
std::string json_version(std::initializer_list<std::string> folders) {
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    const auto text = contents(path(folder) / "version.json");
    if (!text) continue;
    const std::size_t key = text->find("\"version\"");
    if (key == text->npos) continue;
    const std::size_t open = text->find('"', text->find(':', key));
    if (open == text->npos) continue;
    const std::size_t close = text->find('"', open + 1);
    if (close != text->npos && close - open < 40)
      return text->substr(open + 1, close - open - 1);
  }
  return "";
}

}  // namespace

void collect_system(const path& folder, SectionFacts& facts) {
  facts.collected = true;
  struct utsname name {};
  if (::uname(&name) == 0) {
    set(facts, "os.kernel", std::string(name.sysname) + " " + name.release);
    set(facts, "cpu.architecture", name.machine);
  }
  if (const auto release = contents("/etc/os-release"))
    set(facts, "os.name", field(*release, "PRETTY_NAME", '='));
  if (const auto cpu = contents("/proc/cpuinfo")) {
    std::string model = field(*cpu, "model name", ':');
    if (model.empty())  // Arm has numbers
      model = field(*cpu, "CPU implementer", ':') + " " +
              field(*cpu, "CPU part", ':');
    set(facts, "cpu.model", std::string(trim(model)));
  }
  set(facts, "cpu.cores", std::to_string(std::thread::hardware_concurrency()));
  struct sysinfo info {};
  if (::sysinfo(&info) == 0)
    set(facts, "memory",
        human_bytes(static_cast<std::int64_t>(info.totalram) *
                    static_cast<std::int64_t>(info.mem_unit)));
  collect_git(folder, facts);
}

void collect_drivers(SectionFacts& facts) {
  const auto driver = [&](const char* key, std::string value) {
    if (!value.empty()) facts.collected = true;
    set(facts, key, std::move(value));
  };
  driver("nvidia.driver", nvidia_driver());
  driver("cuda", json_version({variable("CUDA_HOME"), "/usr/local/cuda"}));
  driver("ascend.driver", version_in({"/usr/local/Ascend/driver"},
                                     "version.info", "Version", '='));
  for (const char* file : {"x86_64-linux/ascend_toolkit_install.info",
                           "aarch64-linux/ascend_toolkit_install.info"})
    driver("cann", version_in({variable("ASCEND_TOOLKIT_HOME"),
                               "/usr/local/Ascend/ascend-toolkit/latest"},
                              file, "version", '='));
  driver("rocm", version_in({variable("ROCM_PATH"), "/opt/rocm"},
                            ".info/version", "", '='));
  driver("musa", json_version({variable("MUSA_HOME"), "/usr/local/musa"}));
}

}  // namespace assay::env
