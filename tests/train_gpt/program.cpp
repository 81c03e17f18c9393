#include "tests/train_gpt/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/train_gpt/small_run.h"

namespace assay::train_gpt {
namespace {

// A new file, open for writing, and its path.
int temporary_file(std::string& path) {
  path = (std::filesystem::temp_directory_path() / "train_gpt.XXXXXX").string();
  return ::mkstemp(path.data());
}

}  // namespace

Program::Program(const std::vector<std::string>& command) {
  const int out = temporary_file(out_path_), err = temporary_file(err_path_);
  std::vector<char*> arguments;
  for (const std::string& word : command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out, 1);
    ::dup2(err, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(out);
  ::close(err);
}

Program::~Program() {
  if (running()) {
    signal(SIGKILL);
    wait();
  }
  std::filesystem::remove(out_path_);
  std::filesystem::remove(err_path_);
}

void Program::signal(int number) const { ::kill(pid_, number); }

bool Program::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

Ended Program::wait() {
  if (!ended_) ::waitpid(pid_, &status_, 0);
  ended_ = true;
  return {WIFEXITED(status_) ? WEXITSTATUS(status_) : -1, read_text(out_path_),
          read_text(err_path_)};
}

Ended run_program(const std::vector<std::string>& command) {
  return Program(command).wait();
}

std::vector<std::string> small_command(const std::vector<std::string>& more) {
  std::vector<std::string> command = {TRAIN_GPT};
  std::ranges::copy(small_arguments(), std::back_inserter(command));
  std::ranges::copy(more, std::back_inserter(command));
  return command;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace assay::train_gpt
