// The one exception type of the project, and what each code means to a caller.
#pragma once

#include <stdexcept>
#include <string>

namespace assay {

enum class Code {
  kUsage,        // the command line or an argument of a call is wrong
  kUnreadable,   // absent, truncated or failing file
  kRefused,      // malformed or hostile content; nothing of it was used
  kUnsupported,  // well-formed, but a dtype or layout we do not compare
  kInternal,     // a broken invariant of ours
};

// `what()` is one line that names the file, the byte offset or field, what was
// found and what was expected. The CLI prints it as it is.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

}  // namespace assay
