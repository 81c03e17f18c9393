// The program as a child process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace assay::train_gpt {

struct Ended {
  int code = -1;  // exit code; -1 where a signal ended it
  std::string out, err;
};

class Program {
 public:
  // command[0] is looked for in the PATH. Output goes to files that are gone
  // with the object.
  explicit Program(const std::vector<std::string>& command);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void signal(int number) const;
  bool running();
  Ended wait();

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string out_path_, err_path_;
};

Ended run_program(const std::vector<std::string>& command);
// train_gpt with the arguments of a small run, then `more`.
std::vector<std::string> small_command(const std::vector<std::string>& more);

std::string read_text(const std::string& path);
std::vector<std::string> lines_of(const std::string& text);

}  // namespace assay::train_gpt
