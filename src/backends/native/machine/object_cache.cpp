// Object code on disk: <directory>/<hex of key>.o = magic, key, BLAKE2b of the object, object.
#include "backends/native/machine/object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backends/native/machine/blake2b.h"

namespace evalframe::native {
namespace {

// The last digit is the version of this format and of what generated code expects of its caller.
constexpr char kMagic[] = "evalframe object 2\n";
constexpr size_t kHeader = sizeof kMagic - 1 + 64;
constexpr off_t kLargest = 64 << 20;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

bool is_private(const struct stat& status) { return status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH)); }

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

// Empty where there is no place for a cache or it is switched off.
std::string directory_name() {
  const char* enabled = environment("EVALFRAME_CACHE");
  if (enabled && std::strcmp(enabled, "0") == 0) return {};
  if (const char* own = environment("EVALFRAME_CACHE_DIR")) return own;
  if (const char* base = environment("XDG_CACHE_HOME")) return std::string(base) + "/evalframe";
  if (const char* home = environment("HOME")) return std::string(home) + "/.cache/evalframe";
  return {};
}

void make_directories(const std::string& name) {
  for (size_t at = name.find('/', 1); at != std::string::npos; at = name.find('/', at + 1)) mkdir(name.substr(0, at).c_str(), 0755);
  mkdir(name.c_str(), 0700);
}

// The directory, opened; files are then reached relative to it, so that it is the checked one.
int open_directory(bool create) {
  const std::string name = directory_name();
  if (name.empty()) return -1;
  if (create) make_directories(name);
  const int descriptor = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status;
  if (descriptor >= 0 && (fstat(descriptor, &status) != 0 || !is_private(status))) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

std::optional<std::string> read_all(int descriptor, size_t size) {
  std::string contents(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(descriptor, contents.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    done += static_cast<size_t>(got);
  }
  return contents;
}

bool write_all(int descriptor, const std::string& contents) {
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t put = write(descriptor, contents.data() + done, contents.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

}  // namespace

std::optional<std::string> cached_object(const std::string& key, const char* suffix) {
  const File directory(open_directory(false));
  if (!directory) return {};
  const File file(openat(directory.get(), (hex(key) + suffix).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !is_private(status)) return {};
  if (status.st_size < static_cast<off_t>(kHeader) || status.st_size > kLargest) return {};
  const auto contents = read_all(file.get(), static_cast<size_t>(status.st_size));
  if (!contents) return {};
  std::string object = contents->substr(kHeader);
  if (contents->substr(0, kHeader) != kMagic + key + blake2b(object)) return {};
  return object;
}

void cache_object(const std::string& key, const std::string& object, const char* suffix) {
  const File directory(open_directory(true));
  if (!directory) return;
  const std::string name = hex(key) + suffix;
  const std::string temporary = name + "." + std::to_string(getpid()) + ".tmp";
  bool written = false;
  {
    const File file(openat(directory.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return;
    written = write_all(file.get(), kMagic + key + blake2b(object) + object);
  }
  if (!written || renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0) {
    unlinkat(directory.get(), temporary.c_str(), 0);
  }
}

}  // namespace evalframe::native
