// Tells which entries of a directory may hold tensors: what is neither read
// nor known to hold none must not pass for compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "assay/trace/directory.h"

namespace assay {

// True for the extensions of supported_formats() and of containers and
// archives that we do not read (".h5", ".gz"). JSON is not among them: only
// its content tells.
bool is_tensor_file_name(std::string_view name);

// For a regular file: true by its extension; false for text and picture
// companions (".txt", ".log", ".png"); by content for JSON and for names that
// say nothing, where only text is taken to hold no tensor. A file that cannot
// be opened may hold some.
bool may_hold_tensors(const std::filesystem::path& file);

enum class EntryRole : std::uint8_t {
  kTensorFile,  // to be opened
  kDirectory,   // to be listed
  kUnread,      // may hold tensors, never opened: `why` says the reason
  kHidden,
  kCompanion,
};

struct JudgedEntry {
  EntryRole role = EntryRole::kCompanion;
  std::string why;
};

// Links are never followed. A hidden file or link counts as unread when it has
// a tensor file's extension, a hidden directory when one of its files has.
JudgedEntry judge_entry(const std::filesystem::path& directory,
                        const DirectoryEntry& entry);

}  // namespace assay
