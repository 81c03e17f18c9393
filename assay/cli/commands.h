// Every subcommand, one factory each; main lists them.
#pragma once

#include <memory>

#include "assay/cli/args.h"

namespace assay {

std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_compare_runs_command();
std::unique_ptr<Command> make_inspect_command();
std::unique_ptr<Command> make_overflow_command();
std::unique_ptr<Command> make_determinism_command();
std::unique_ptr<Command> make_fuzz_command();
std::unique_ptr<Command> make_convert_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_conform_command();
std::unique_ptr<Command> make_precheck_command();
std::unique_ptr<Command> make_api_command();
std::unique_ptr<Command> make_env_command();
std::unique_ptr<Command> make_history_command();
std::unique_ptr<Command> make_worker_command();
std::unique_ptr<Command> make_completion_command();

// The verbs of `assay conform`.
std::unique_ptr<Command> make_conform_cases_command();
std::unique_ptr<Command> make_conform_lint_command();
std::unique_ptr<Command> make_conform_new_command();
std::unique_ptr<Command> make_conform_collect_command();
std::unique_ptr<Command> make_conform_run_command();
std::unique_ptr<Command> make_conform_loop_command();
std::unique_ptr<Command> make_conform_report_command();
std::unique_ptr<Command> make_conform_pack_command();
std::unique_ptr<Command> make_conform_unpack_command();

// The verbs of `assay precheck`.
std::unique_ptr<Command> make_precheck_run_command();
std::unique_ptr<Command> make_precheck_compare_command();

// The verbs of `assay env`.
std::unique_ptr<Command> make_env_snapshot_command();
std::unique_ptr<Command> make_env_diff_command();

// In the order --help shows them.
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace assay
