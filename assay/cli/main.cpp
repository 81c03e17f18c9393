// The assay program.
#include <string>
#include <vector>

#include "assay/cli/commands.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return assay::run_command_line(arguments, assay::all_commands());
}
