// Manages the folder that a rehearsed script writes into, which MESHWRIGHT_STAND_IN_FOLDER names.
// It overlays the real files: files that the script has written, made or renamed are there, and
// deleted ones are marked there. All other files are the real ones. Without the variable, files are
// written where the script writes them.
#pragma once

#include <string>

namespace meshwright::stand_in {

// Returns whether the script has its own folder, and a file was written or deleted in it.
bool has_own_files();
// Returns whether the folder overlays a path. It does not overlay devices, files of the system
// (/dev, /proc, /sys, /run) and files of the rehearsal itself.
bool is_covered(const std::string& path);
// Returns a path from the root without `.` and `..`. `path` may be relative to an open directory,
// or to the current folder (AT_FDCWD).
std::string from_root(int directory, const char* path);

// Returns the path at which a file of the script is to be read: that of the written file, or the
// real one. Returns "" if the script has deleted the file.
std::string to_read(const std::string& path);
// Returns the path at which a file of the script is to be written, and makes the folders that lead
// there. With `keep`, the content of the real file is copied there. Returns "" if the file's folder
// is not there.
std::string to_write(const std::string& path, bool keep);
bool is_there(const std::string& path);      // for the script
bool is_written(const std::string& path);    // in the own folder
bool is_real(const std::string& path);       // on this computer, even if the script has deleted it
void mark_deleted(const std::string& path);  // marks a real file as deleted
bool is_marked(const std::string& path);     // whether it is marked as deleted itself

}  // namespace meshwright::stand_in
