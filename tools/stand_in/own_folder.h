// The folder that a rehearsed script writes into. It lies over the real files: what the script has
// written, made or renamed is there, what it has deleted is marked there, all else is the real one.
// The folder is the one that MESHWRIGHT_STAND_IN_FOLDER names; without it, files are written where
// the script writes them.
#pragma once

#include <string>

namespace meshwright::stand_in {

// Returns whether a script has an own folder, and it holds something.
bool has_own_files();
// Returns whether a path is of the kind that the folder lies over: no device, no file of the
// system's, none of the rehearsal's own.
bool is_covered(const std::string& path);
// Returns a path from the root without `.` and `..`, relative to an open directory or AT_FDCWD.
std::string from_root(int directory, const char* path);

// Returns where a file of the script is to be read: the written one, or the real one. Empty: there
// is none, because the script has deleted it.
std::string to_read(const std::string& path);
// Returns where a file of the script is to be written, with the folders that lead there. The
// content of the real one is copied if `keep` says so. Empty: no folder leads there.
std::string to_write(const std::string& path, bool keep);
bool is_there(const std::string& path);      // to the script
bool is_written(const std::string& path);    // in the own folder
bool is_real(const std::string& path);       // on this computer, deleted or not
void mark_deleted(const std::string& path);  // the real one
bool is_marked(const std::string& path);     // as deleted itself

}  // namespace meshwright::stand_in
