#include "assay/conform/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <istream>
#include <new>
#include <optional>
#include <ostream>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/conform/adapter.h"
#include "assay/conform/protocol.h"
#include "assay/conform/tensor_file.h"
#include "assay/kernels/kernels.h"

namespace assay::conform {
namespace {

std::int64_t peak_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

std::string_view error_name(Code code) {
  switch (code) {
    case Code::kUsage:
      return "usage";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kInternal:
      return "internal";
    default:
      return "unreadable";
  }
}

RunAnswer failure(std::int64_t id, std::string_view kind,
                  std::string_view message) {
  RunAnswer answer;
  answer.id = id;
  answer.status = kind == "unsupported" ? RunAnswer::Status::kUnsupported
                                        : RunAnswer::Status::kError;
  answer.error = kind;
  answer.message = message;
  return answer;
}

// What a rank tells the others of its part: nothing, or why it failed.
struct RankNote {
  char kind[16] = {};
  char message[496] = {};

  static RankNote of(const RunAnswer& answer) {
    RankNote note;
    if (answer.status == RunAnswer::Status::kOk) return note;
    std::strncpy(note.kind, answer.error.c_str(), sizeof note.kind - 1);
    std::strncpy(note.message, answer.message.c_str(), sizeof note.message - 1);
    return note;
  }
};

class Server {
 public:
  Server(std::istream& in, std::ostream& out, const ServeOptions& options)
      : in_(in), out_(out), options_(options) {}

  void run() {
    while (const std::optional<std::string> line = next_line()) {
      if (line->empty()) continue;
      try {
        if (!handle(parse_json(*line, "request"))) return;
      } catch (const Error& error) {
        say(format_answer(failure(-1, "usage", error.what())));
      }
    }
  }

 private:
  int rank() const { return options_.group ? options_.group->rank() : 0; }

  void say(const std::string& line) {
    if (rank() == 0) out_ << line << '\n' << std::flush;
  }

  // The line that rank 0 read, on every rank.
  std::optional<std::string> next_line() {
    std::string line;
    bool there = true;
    if (rank() == 0) there = static_cast<bool>(std::getline(in_, line));
    if (!options_.group) return there ? std::optional(line) : std::nullopt;
    std::int64_t size = there ? static_cast<std::int64_t>(line.size()) : -1;
    options_.group->broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
    if (size < 0) return std::nullopt;
    line.resize(static_cast<std::size_t>(size));
    options_.group->broadcast(std::as_writable_bytes(std::span(line)), 0);
    return line;
  }

  bool handle(const Value& message) {
    const Value* type = message.find("type");
    const std::string kind = type && type->is_text() ? type->text() : "";
    if (kind == "bye") return false;
    if (kind == "hello") {
      say(format_hello(hello()));
    } else if (kind == "run") {
      say(format_answer(agreed(answer(parse_request(message)))));
    } else {
      say(format_answer(
          failure(-1, "usage", "type: expected hello, run or bye")));
    }
    return true;
  }

  Hello hello() const {
    Hello hello;
    const bool reference = options_.device == Device::kReference;
    hello.implementation = reference ? "assay-reference" : "assay-cpu";
    hello.version = options_.version;
    hello.device = reference ? "reference" : "cpu";
    if (te::mpi_available()) hello.launcher = "mpirun";
    for (const Adapter& adapter : engine_adapters())
      hello.modules[std::string(adapter.module)] = {adapter.version, false, {}};
    hello.environment = {{"isa", kernels().isa}, {"threads", thread_count()}};
    return hello;
  }

  RunAnswer answer(const RunRequest& request) const {
    try {
      return compute(request);
    } catch (const Error& error) {
      return failure(request.id, error_name(error.code()), error.what());
    } catch (const std::bad_alloc&) {
      return failure(request.id, "memory", "out of memory");
    } catch (const std::exception& error) {
      return failure(request.id, "internal", error.what());
    }
  }

  RunAnswer compute(const RunRequest& request) const {
    const Adapter* adapter = find_adapter(request.subject.module);
    if (!adapter)
      throw Error(
          Code::kUnsupported,
          fmt::format("no module {}", printable(request.subject.module)));
    AdapterCall call;
    call.module = request.subject.module;
    call.parameters = request.subject.parameters;
    call.steps = request.subject.steps;
    call.seed = request.subject.seed;
    call.device = options_.device;
    call.group = options_.group;
    call.inputs = read_tensors(request.inputs);
    for (const std::string& name : request.strided) {
      const auto found = call.inputs.find(name);
      if (found != call.inputs.end())
        found->second = strided_view(found->second);
    }
    for (auto& [name, tensor] : call.inputs) tensor.device = options_.device;

    const auto start = std::chrono::steady_clock::now();
    AdapterResult result = adapter->run(call);
    RunAnswer answer;
    answer.id = request.id;
    answer.status = RunAnswer::Status::kOk;
    answer.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    answer.peak_bytes = peak_bytes();
    answer.contract = std::move(result.contract);
    write_tensors(result.outputs, output_file(request.outputs, rank()));
    return answer;
  }

  // One answer for all ranks: the first that failed speaks.
  RunAnswer agreed(const RunAnswer& own) const {
    if (!options_.group) return own;
    const auto size = static_cast<std::size_t>(options_.group->size());
    const RankNote note = RankNote::of(own);
    std::vector<RankNote> notes(size);
    options_.group->all_gather(std::as_bytes(std::span(&note, 1)),
                               std::as_writable_bytes(std::span(notes)));
    for (std::size_t r = 0; r < size; ++r)
      if (notes[r].kind[0])
        return failure(own.id, notes[r].kind,
                       fmt::format("rank {}: {}", r, notes[r].message));
    return own;
  }

  std::istream& in_;
  std::ostream& out_;
  const ServeOptions& options_;
};

}  // namespace

void serve(std::istream& in, std::ostream& out, const ServeOptions& options) {
  Server(in, out, options).run();
}

}  // namespace assay::conform
