#include "assay/cli/commands.h"

namespace assay {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_compare_command());
  commands.push_back(make_compare_runs_command());
  commands.push_back(make_inspect_command());
  commands.push_back(make_overflow_command());
  commands.push_back(make_determinism_command());
  commands.push_back(make_fuzz_command());
  commands.push_back(make_convert_command());
  commands.push_back(make_conform_command());
  commands.push_back(make_precheck_command());
  commands.push_back(make_env_command());
  commands.push_back(make_history_command());
  commands.push_back(make_api_command());
  commands.push_back(make_worker_command());
  commands.push_back(make_doctor_command());
  commands.push_back(make_completion_command());
  return commands;
}

}  // namespace assay
