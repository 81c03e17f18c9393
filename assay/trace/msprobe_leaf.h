// The arguments and results of one operator in an msprobe dump: JSON values to
// records.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/trace/directory.h"
#include "assay/trace/json_reader.h"
#include "assay/trace/trace.h"

namespace assay {

// Appends the records of one value tree to `records`. A leaf's name is the
// path to it: list elements add ".{i}", dict elements ".{key}", as msprobe's
// own compare derives them; a member of a parameters_grad list adds nothing.
class LeafReader {
 public:
  // All must outlive the reader. `data` is where the tensor files are.
  LeafReader(JsonReader& json, const DataDirectory& data,
             std::vector<Record>& records);

  // What the records of the values to come belong to.
  void begin(std::uint32_t op, Role role, std::string_view path,
             bool list_adds_index = true);
  // Reads the value that `token` began.
  void read(JsonToken token);

  // Collective facts seen since the last call, null when none.
  std::unique_ptr<Collective> take_collective();

 private:
  Record& append();
  void step_into(std::string_view part);
  void read_array();
  void read_object();
  void read_scalar(JsonToken token);
  void note_empty(std::string_view type, std::string_view text);
  void read_leaf(std::string_view type);
  void read_members(Record& record);
  void member(Record& record, std::string_view key, JsonToken token);
  bool tensor_member(Record& record, std::string_view key, JsonToken token);
  bool statistic(Record& record, std::string_view key, JsonToken token);
  void collective_member(std::string_view key, JsonToken token);
  void set_value(Record& record, JsonToken token);
  void add_extra(std::string_view key, JsonToken token);
  void read_shape(Record& record);
  void set_dtype(Record& record);
  void set_file(Record& record);
  void finish(Record& record);

  JsonReader& json_;
  const DataDirectory& data_;
  std::vector<Record>& records_;
  std::uint32_t op_ = 0;
  Role role_ = Role::kTensor;
  bool list_adds_index_ = true;
  std::string path_;
  std::size_t root_ = 0;  // bytes of it that begin() gave
  std::unique_ptr<Collective> collective_;
  // Of the leaf being read.
  bool has_shape_ = false;
  bool has_value_ = false;
  std::string extra_;  // members we have no field for, as JSON
  // The last dtype seen: runs of equal ones are the rule.
  std::string dtype_text_;
  std::optional<DType> dtype_;
};

}  // namespace assay
