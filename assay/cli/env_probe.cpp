#include "assay/cli/env_probe.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/process.h"
#include "assay/conform/python_side.h"

namespace assay {
namespace {

using namespace std::chrono_literals;
using conform::Process;
using env::Section;

// torch with a driver that starts slowly takes its time to import.
constexpr auto kPythonPatience = 120s;
constexpr auto kToolPatience = 10s;
constexpr std::size_t kMostLines = 5000;

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  if (path == nullptr) return false;
  for (const std::string_view folder : split(path, ':'))
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0)
      return true;
  return false;
}

struct Output {
  std::vector<std::string> lines;
  std::string problem;  // one line, "" where it ended well
};

Output output_of(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment,
                 std::chrono::seconds patience) {
  Output output;
  try {
    conform::ProcessOptions options;
    options.arguments = arguments;
    options.environment = environment;
    options.line_limit = std::size_t{64} << 20;
    Process process(options);
    const auto deadline = Process::Clock::now() + patience;
    std::string line;
    Process::Read read = Process::Read::kLine;
    while (output.lines.size() < kMostLines &&
           (read = process.read_line(line, deadline)) == Process::Read::kLine)
      output.lines.push_back(line);
    if (read == Process::Read::kTimeout) {
      output.problem =
          "no answer in " + std::to_string(patience.count()) + " s";
      process.kill();
      return output;
    }
    const std::string ending = process.ending();
    const std::string last = process.log().last_line();
    if (ending != "exit 0")
      output.problem = printable(ending + (last.empty() ? "" : ": " + last));
  } catch (const Error& error) {
    output.problem = error.what();
  }
  return output;
}

// The Python half: libraries, switches, devices as torch knows them.
env::Snapshot python_facts() {
  env::Snapshot made;
  std::string problem;
  try {
    const conform::PythonSide side = conform::python_side();
    const Output output = output_of({side.interpreter, "-m", "assay.env"},
                                    side.environment(), kPythonPatience);
    // A document that is whole counts, whatever torch does while it ends.
    problem = output.problem.empty() ? "it said nothing" : output.problem;
    if (!output.lines.empty())
      return env::parse_snapshot(output.lines.back(), "python -m assay.env");
  } catch (const Error& error) {
    problem = error.what();
  }
  for (const Section section : {Section::kSwitches, Section::kLibraries})
    made[section].missing.push_back("Python gave nothing: " + problem);
  return made;
}

void set(env::SectionFacts& facts, const std::string& key, std::string value) {
  if (value.empty()) return;
  facts.collected = true;
  facts.values.insert_or_assign(
      key, env::Value{env::Kind::kText, std::move(value), ""});
}

// "NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB", a line each device.
void nvidia(env::SectionFacts& facts) {
  const Output output =
      output_of({"nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                 "--format=csv,noheader"},
                {}, kToolPatience);
  if (!output.problem.empty()) {
    facts.missing.push_back("nvidia-smi: " + output.problem);
    return;
  }
  std::vector<std::string> names;
  for (const std::string& line : output.lines) {
    const auto cells = split(line, ',');
    if (cells.size() != 3) continue;
    names.emplace_back(trim(cells[0]));
    set(facts, "nvidia.driver", std::string(trim(cells[1])));
    set(facts, "nvidia.memory", std::string(trim(cells[2])));
  }
  if (names.empty()) return;
  const bool alike = std::all_of(names.begin(), names.end(),
                                 [&](const auto& n) { return n == names[0]; });
  set(facts, "vendor", "cuda");
  set(facts, "devices",
      std::to_string(names.size()) + " x " +
          (alike ? names[0] : "several models"));
}

// The word behind `label` of the first line that has it.
std::string word_behind(const std::vector<std::string>& lines,
                        std::string_view label) {
  for (const std::string& line : lines) {
    const std::size_t at = line.find(label);
    if (at == std::string::npos) continue;
    const std::string_view rest =
        trim(std::string_view(line).substr(at + label.size()));
    return std::string(rest.substr(0, rest.find_first_of(" |\t")));
  }
  return "";
}

// A table with "npu-smi 24.1.rc2   Version: 24.1.rc2" and a "| 0  910B3 | OK"
// line each device.
void ascend(env::SectionFacts& facts) {
  const Output output = output_of({"npu-smi", "info"}, {}, kToolPatience);
  if (!output.problem.empty()) {
    facts.missing.push_back("npu-smi: " + output.problem);
    return;
  }
  set(facts, "ascend.driver", word_behind(output.lines, "Version:"));
  int count = 0;
  std::string model;
  for (const std::string& line : output.lines) {
    if (line.find("| OK ") == std::string::npos) continue;
    const auto cells = split(line, '|');
    if (cells.size() < 2) continue;
    const std::string_view cell = trim(cells[1]);
    const std::size_t blank = cell.find(' ');
    if (blank == cell.npos) continue;
    ++count;
    model = std::string(trim(cell.substr(blank)));
  }
  if (count == 0) return;
  set(facts, "vendor", "npu");
  set(facts, "devices", std::to_string(count) + " x Ascend " + model);
}

// Agents of rocminfo: "  Marketing Name:  AMD Instinct MI300X".
void rocm(env::SectionFacts& facts) {
  const Output output = output_of({"rocminfo"}, {}, kToolPatience);
  if (!output.problem.empty()) {
    facts.missing.push_back("rocminfo: " + output.problem);
    return;
  }
  int count = 0;
  std::string name, marketing;
  for (const std::string& line : output.lines) {
    const std::size_t sign = line.find(':');
    if (sign == std::string::npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, sign));
    const std::string_view value =
        trim(std::string_view(line).substr(sign + 1));
    if (key == "Marketing Name") marketing = value;
    if (key != "Device Type" || value != "GPU") continue;
    ++count;
    name = marketing;
  }
  if (count == 0) return;
  set(facts, "vendor", "rocm");
  set(facts, "devices", std::to_string(count) + " x " + name);
}

}  // namespace

env::Snapshot probe_environment() {
  env::Snapshot made = python_facts();
  env::SectionFacts& device = made[Section::kDevice];
  if (in_path("nvidia-smi")) nvidia(device);
  if (in_path("npu-smi")) ascend(device);
  if (in_path("rocminfo")) rocm(device);
  return made;
}

}  // namespace assay
