#include "assay/formats/pickle.h"

#include <bit>
#include <string>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/pickle_opcodes.h"

namespace assay {
namespace {

using namespace pickle_opcode;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kCell = sizeof(PickleValue);
constexpr std::uint64_t kContainer = sizeof(std::vector<PickleValue>);

PickleValue number(PickleKind kind, std::uint64_t bits) {
  return {kind, 0, bits};
}

}  // namespace

// One run over one pickle. Two stacks: values, and the places of the marks.
class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes,
                std::span<const PickleGlobal> allowed, std::string_view file,
                std::uint64_t base, std::uint64_t max_memory)
      : cursor_(bytes, file, base), allowed_(allowed), budget_(max_memory) {
    pickle_.bytes_ = bytes;
  }

  Pickle run() {
    if (cursor_.u8("a pickle") != kProto) fail("no PROTO opcode", "one first");
    const int protocol = cursor_.u8("protocol");
    if (protocol < 2 || protocol > 5) {
      fail("pickle protocol " + std::to_string(protocol), "2 to 5");
    }
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      fail("STOP with " + std::to_string(stack_.size()) + " values", "one");
    }
    if (!cursor_.at_end()) {
      fail(std::to_string(cursor_.remaining()) + " bytes after STOP", "none");
    }
    pickle_.root_ = stack_.back();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(std::string_view found, std::string_view expected) {
    cursor_.fail(found, expected);
  }

  void charge(std::uint64_t bytes) {
    if (bytes > budget_) {
      fail("a pickle that grows out of proportion to the file",
           "values that fit the memory limit");
    }
    budget_ -= bytes;
  }

  // False after STOP.
  bool step() {
    const int opcode = cursor_.u8("an opcode");
    if (push_constant(opcode) || push_sized(opcode) || build(opcode) ||
        use_memo(opcode)) {
      return true;
    }
    switch (opcode) {
      case kStop:
        return false;
      case kMark:
        charge(sizeof(std::size_t));
        marks_.push_back(stack_.size());
        return true;
      case kFrame:
        if (cursor_.le<std::uint64_t>("frame size") > cursor_.remaining()) {
          fail("a frame beyond the end", "one inside the pickle");
        }
        return true;
      case kGlobal:
        push_global();
        return true;
      case kStackGlobal:
        push_stack_global();
        return true;
      default:
        refuse_opcode(opcode);
    }
  }

  [[noreturn]] void refuse_opcode(int opcode) {
    constexpr std::string_view kHex = "0123456789abcdef";
    throw Error(Code::kRefused,
                std::string(cursor_.file()) + ": offset " +
                    std::to_string(cursor_.offset() - 1) +
                    ": pickle opcode not allowed: 0x" + kHex[opcode >> 4] +
                    kHex[opcode & 15] + std::string(forbidden_name(opcode)) +
                    ", expected only tensors and plain containers");
  }

  bool push_constant(int opcode) {
    switch (opcode) {
      case kNone:
        push({});
        return true;
      case kNewTrue:
      case kNewFalse:
        push(number(PickleKind::kBool, opcode == kNewTrue));
        return true;
      case kBinInt1:
        push(number(PickleKind::kInt, cursor_.u8("BININT1")));
        return true;
      case kBinInt2:
        push(number(PickleKind::kInt, cursor_.le<std::uint16_t>("BININT2")));
        return true;
      case kBinInt: {
        const auto bits = cursor_.le<std::uint32_t>("BININT");
        push(number(PickleKind::kInt,
                    static_cast<std::uint64_t>(static_cast<std::int64_t>(
                        static_cast<std::int32_t>(bits)))));
        return true;
      }
      case kBinFloat:
        push(number(PickleKind::kFloat, cursor_.be<std::uint64_t>("BINFLOAT")));
        return true;
      case kLong1:
        push_long();
        return true;
      default:
        return false;
    }
  }

  // Little-endian two's complement of 0 to 255 bytes.
  void push_long() {
    const auto bytes = cursor_.take(cursor_.u8("LONG1 size"), "LONG1");
    if (bytes.size() > 8) return push({PickleKind::kBigInt, 0, 0});
    std::uint64_t bits = 0;
    if (!bytes.empty() && (bytes.back() & std::byte{0x80}) != std::byte{0}) {
      bits = ~std::uint64_t{0};
    }
    for (std::size_t i = bytes.size(); i-- > 0;) {
      bits = bits << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    }
    push(number(PickleKind::kInt, bits));
  }

  bool push_sized(int opcode) {
    switch (opcode) {
      case kBinUnicode:
        push_text(PickleKind::kString, cursor_.le<std::uint32_t>("size"));
        return true;
      case kShortBinUnicode:
        push_text(PickleKind::kString, cursor_.u8("size"));
        return true;
      case kBinUnicode8:
        push_text(PickleKind::kString, cursor_.le<std::uint64_t>("size"));
        return true;
      case kShortBinBytes:
        push_text(PickleKind::kBytes, cursor_.u8("size"));
        return true;
      case kBinBytes:
        push_text(PickleKind::kBytes, cursor_.le<std::uint32_t>("size"));
        return true;
      default:
        return false;
    }
  }

  void push_text(PickleKind kind, std::uint64_t size) {
    if (size > 0xffffffff) fail("a string of over 4 GiB", "a shorter one");
    const std::uint64_t at = cursor_.position();
    cursor_.skip(size, "a string");
    push({kind, static_cast<std::uint32_t>(size), at});
  }

  bool build(int opcode) {
    switch (opcode) {
      case kEmptyTuple:
        push_tuple(0);
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        push_tuple(static_cast<std::size_t>(opcode - kTuple1 + 1));
        return true;
      case kTuple:
        push_tuple(pop_mark());
        return true;
      case kEmptyList:
        push_container(PickleKind::kList);
        return true;
      case kEmptyDict:
        push_container(PickleKind::kDict);
        return true;
      case kAppend:
        extend(1, PickleKind::kList);
        return true;
      case kAppends:
        extend(pop_mark(), PickleKind::kList);
        return true;
      case kSetItem:
        extend(2, PickleKind::kDict);
        return true;
      case kSetItems:
        extend(pop_mark(), PickleKind::kDict);
        return true;
      case kBinPersId:
        push_persistent();
        return true;
      case kReduce:
        reduce();
        return true;
      case kBuild:
        set_state();
        return true;
      default:
        return false;
    }
  }

  bool use_memo(int opcode) {
    switch (opcode) {
      case kBinPut:
        memoize(cursor_.u8("memo index"));
        return true;
      case kLongBinPut:
        memoize(cursor_.le<std::uint32_t>("memo index"));
        return true;
      case kMemoize:
        memoize(memo_.size());
        return true;
      case kBinGet:
        recall(cursor_.u8("memo index"));
        return true;
      case kLongBinGet:
        recall(cursor_.le<std::uint32_t>("memo index"));
        return true;
      default:
        return false;
    }
  }

  // Values above the last mark, which is all an opcode may touch.
  std::size_t available() const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back());
  }

  void need(std::size_t count) {
    if (available() < count) {
      fail("an opcode with " + std::to_string(available()) +
               " values on its stack",
           std::to_string(count));
    }
  }

  void push(PickleValue value) {
    if (stack_.size() == deepest_) {
      charge(kCell);
      ++deepest_;
    }
    stack_.push_back(value);
  }

  PickleValue pop() {
    need(1);
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  // Removes the last mark; returns how many values lie above it.
  std::size_t pop_mark() {
    if (marks_.empty()) fail("no MARK on the stack", "one");
    const std::size_t count = available();
    marks_.pop_back();
    return count;
  }

  void push_tuple(std::size_t count) {
    need(count);
    charge(count * kCell);
    const std::size_t at = pickle_.cells_.size();
    pickle_.cells_.insert(pickle_.cells_.end(), stack_.end() - count,
                          stack_.end());
    stack_.resize(stack_.size() - count);
    push({PickleKind::kTuple, static_cast<std::uint32_t>(count), at});
  }

  void push_container(PickleKind kind) {
    charge(kContainer);
    push({kind, 0, pickle_.containers_.size()});
    pickle_.containers_.emplace_back();
  }

  // Moves the last `count` values into the list, or dict, or call below them.
  void extend(std::size_t count, PickleKind kind) {
    need(count + 1);
    if (kind == PickleKind::kDict && count % 2) {
      fail("a dict key without value", "pairs");
    }
    const PickleValue target = stack_[stack_.size() - count - 1];
    const bool call = kind == PickleKind::kDict && target.is(PickleKind::kCall);
    if (!target.is(kind) && !call) {
      fail("items for a value that holds none", "a list or dict");
    }
    charge(count * kCell);
    auto& items = pickle_.containers_[target.at];
    items.insert(items.end(), stack_.end() - count, stack_.end());
    stack_.resize(stack_.size() - count);
  }

  void push_persistent() {
    PickleValue id = pop();
    if (!id.is(PickleKind::kTuple)) {
      fail("a persistent id of another kind", "a tuple");
    }
    id.kind = PickleKind::kPersistent;
    push(id);
  }

  void reduce() {
    const PickleValue arguments = pop();
    const PickleValue callable = pop();
    if (!arguments.is(PickleKind::kTuple) ||
        !callable.is(PickleKind::kGlobal) || callable.count == 0) {
      fail("REDUCE of a value that cannot be called",
           "an allowed function and a tuple");
    }
    charge(3 * kCell);
    push_container(PickleKind::kCall);
    pickle_.containers_.back() = {callable, arguments, {}};
  }

  void set_state() {
    const PickleValue state = pop();
    need(1);
    const PickleValue target = stack_.back();
    if (!target.is(PickleKind::kCall)) {
      fail("BUILD of a value without state", "the result of REDUCE");
    }
    pickle_.containers_[target.at][2] = state;
  }

  // Picklers number the memo 0, 1, 2, ...: a jump is an attack on memory.
  void memoize(std::uint64_t index) {
    need(1);
    if (index > memo_.size()) {
      fail("memo index " + std::to_string(index),
           "at most " + std::to_string(memo_.size()));
    }
    if (index < memo_.size()) {
      memo_[index] = stack_.back();
      return;
    }
    charge(kCell);
    memo_.push_back(stack_.back());
  }

  void recall(std::uint64_t index) {
    if (index >= memo_.size()) {
      fail("memo index " + std::to_string(index),
           "less than " + std::to_string(memo_.size()));
    }
    push(memo_[index]);
  }

  std::string_view line(std::string_view what) {
    const std::size_t begin = cursor_.position();
    const auto rest = as_text(pickle_.bytes_.subspan(begin));
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) fail("an unended line", what);
    cursor_.skip(end + 1, what);
    return rest.substr(0, end);
  }

  void push_global() {
    const std::uint64_t offset = cursor_.offset() - 1;
    const std::string_view module = line("a module name");
    push_global(module, line("a global's name"), offset);
  }

  void push_stack_global() {
    const PickleValue name = pop();
    const PickleValue module = pop();
    if (!name.is(PickleKind::kString) || !module.is(PickleKind::kString)) {
      fail("STACK_GLOBAL without two strings", "module and name");
    }
    push_global(pickle_.text(module), pickle_.text(name), cursor_.offset() - 1);
  }

  void push_global(std::string_view module, std::string_view name,
                   std::uint64_t offset) {
    for (const PickleGlobal& global : allowed_) {
      if (global.name == name && global.module == module) {
        return push({PickleKind::kGlobal, global.callable,
                     static_cast<std::uint64_t>(global.id)});
      }
    }
    throw Error(
        Code::kRefused,
        std::string(cursor_.file()) + ": offset " + std::to_string(offset) +
            ": pickle global not allowed: " + printable(module.substr(0, 100)) +
            "." + printable(name.substr(0, 100)) +
            ", expected only tensors and plain containers (nothing "
            "was executed)");
  }

  ByteCursor cursor_;
  std::span<const PickleGlobal> allowed_;
  std::uint64_t budget_;
  std::size_t deepest_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  Pickle pickle_;
};

double PickleValue::real() const { return std::bit_cast<double>(at); }

std::span<const PickleValue> Pickle::items(const PickleValue& value) const {
  if (value.is(PickleKind::kTuple) || value.is(PickleKind::kPersistent)) {
    return {cells_.data() + value.at, value.count};
  }
  return containers_[value.at];
}

std::string_view Pickle::text(const PickleValue& value) const {
  return as_text(bytes_.subspan(value.at, value.count));
}

Pickle parse_pickle(std::span<const std::byte> bytes,
                    std::span<const PickleGlobal> allowed,
                    std::string_view file, std::uint64_t base,
                    std::uint64_t max_memory) {
  return PickleMachine(bytes, allowed, file, base, max_memory).run();
}

}  // namespace assay
