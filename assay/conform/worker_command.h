// From what the user calls a worker to the program that is started.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay::conform {

struct WorkerCommand {
  std::string text;  // as the user gave it
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // besides ours
};

// Words as a POSIX shell splits them: blanks, '...', "..." and backslashes;
// nothing is expanded or executed. Throws Error{kUsage} for a quote that is
// not closed and for a line without words.
std::vector<std::string> split_command_line(std::string_view text);

// `reference` and `cpu`: this program's engine. `torch` and `te`: the Python
// worker of that provider. Everything else is a command line, in which
// `assay` is this program too, and `python3 -m assay.worker` finds its package.
WorkerCommand parse_worker_command(const std::string& text);

// The same for a case of several ranks, by the launcher of the worker's hello
// ("mpirun" or "self"). Throws Error{kUnsupported} for any other.
WorkerCommand for_ranks(const WorkerCommand& command, int ranks,
                        std::string_view launcher);

// Size and time of the program, where it is named by its path, and of the first
// argument that is a file, its script: text that changes where the worker was
// edited or built again, whatever version it claims. Further files are data,
// which it may write.
std::string files_of(const WorkerCommand& command);

// This program's file.
std::filesystem::path this_program();

}  // namespace assay::conform
