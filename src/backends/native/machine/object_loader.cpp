// Loads kernels' object code: sections into one piece of memory, calls bound, memory made executable.
#include "backends/native/machine/object_loader.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace evalframe::native {
namespace {

constexpr size_t kStubSize = 16;

// Raised, and caught here only: the object is not of the plain kind that this loader knows.
struct Unknown {};

void expect(bool holds) {
  if (!holds) throw Unknown{};
}

// Memory of the process, given back unless it is kept.
class Memory {
 public:
  explicit Memory(size_t size)
      : size_(size), base_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    expect(base_ != MAP_FAILED);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (base_ != MAP_FAILED && !kept_) munmap(base_, size_);
  }

  char* at(size_t offset, size_t size) const {
    expect(offset <= size_ && size <= size_ - offset);
    return static_cast<char*>(base_) + offset;
  }
  void keep_for_execution() {
    expect(mprotect(base_, size_, PROT_READ | PROT_EXEC) == 0);
    kept_ = true;
  }

 private:
  size_t size_;
  void* base_;
  bool kept_ = false;
};

class Loader {
 public:
  Loader(std::string_view object, const std::function<void*(std::string_view)>& resolve) : object_(object), resolve_(resolve) {}

  void* load(std::string_view name) {
    read_sections();
    read_symbols();
    place_sections();
    Memory memory(size_);
    for (size_t i = 0; i < sections_.size(); i++) {
      if (!places_[i]) continue;
      const std::string_view contents = bytes(sections_[i]);
      std::memcpy(memory.at(*places_[i], contents.size()), contents.data(), contents.size());
    }
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_RELA) relocate(section, memory);
    }
    const size_t entry = find(name);
    char* const function = memory.at(entry, 1);
    memory.keep_for_execution();
    return function;
  }

 private:
  template <class T> T read(std::string_view from, size_t offset) const {
    expect(offset <= from.size() && sizeof(T) <= from.size() - offset);
    T value;
    std::memcpy(&value, from.data() + offset, sizeof value);
    return value;
  }
  std::string_view bytes(const Elf64_Shdr& section) const {
    expect(section.sh_offset <= object_.size() && section.sh_size <= object_.size() - section.sh_offset);
    return object_.substr(section.sh_offset, section.sh_size);
  }
  const Elf64_Shdr& section(size_t index) const {
    expect(index < sections_.size());
    return sections_[index];
  }

  void read_sections() {
    const auto header = read<Elf64_Ehdr>(object_, 0);
    expect(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64);
    expect(header.e_type == ET_REL && header.e_machine == EM_X86_64 && header.e_shentsize == sizeof(Elf64_Shdr));
    for (size_t i = 0; i < header.e_shnum; i++) sections_.push_back(read<Elf64_Shdr>(object_, header.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  void read_symbols() {
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_SYMTAB) continue;
      expect(symbols_.empty());
      names_ = bytes(section(table.sh_link));
      const std::string_view contents = bytes(table);
      for (size_t at = 0; at < contents.size(); at += sizeof(Elf64_Sym)) symbols_.push_back(read<Elf64_Sym>(contents, at));
    }
  }

  std::string_view name_of(const Elf64_Sym& symbol) const {
    expect(symbol.st_name < names_.size());
    const std::string_view rest = names_.substr(symbol.st_name);
    return rest.substr(0, rest.find('\0'));
  }

  // Code and constants, in their order; behind them room for a jump to each function outside.
  void place_sections() {
    places_.resize(sections_.size());
    for (size_t i = 0; i < sections_.size(); i++) {
      const Elf64_Shdr& one = sections_[i];
      // Nothing is unwound through this code.
      if (!(one.sh_flags & SHF_ALLOC) || one.sh_size == 0 || one.sh_type == SHT_X86_64_UNWIND) continue;
      expect(one.sh_type == SHT_PROGBITS && !(one.sh_flags & (SHF_WRITE | SHF_TLS)) && one.sh_addralign <= 4096);
      const size_t alignment = std::max<size_t>(one.sh_addralign, 1);
      size_ = (size_ + alignment - 1) / alignment * alignment;
      places_[i] = size_;
      size_ += bytes(one).size();
    }
    stubs_ = (size_ + kStubSize - 1) / kStubSize * kStubSize;
    size_ = stubs_ + symbols_.size() * kStubSize;
  }

  size_t place_of(const Elf64_Sym& symbol) const {
    expect(symbol.st_shndx < places_.size() && places_[symbol.st_shndx].has_value());
    return *places_[symbol.st_shndx] + symbol.st_value;
  }

  size_t find(std::string_view name) const {
    for (const Elf64_Sym& symbol : symbols_) {
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE && name_of(symbol) == name) return place_of(symbol);
    }
    throw Unknown{};
  }

  // Where in the memory a relocation's target is; a function outside gets a jump there, as it may be further than a call reaches.
  size_t target(size_t index, Memory& memory) {
    expect(index < symbols_.size());
    const Elf64_Sym& symbol = symbols_[index];
    if (symbol.st_shndx != SHN_UNDEF) return place_of(symbol);
    const size_t stub = stubs_ + index * kStubSize;
    void* const function = resolve_(name_of(symbol));
    expect(function != nullptr);
    constexpr unsigned char kJump[] = {0xff, 0x25, 0, 0, 0, 0};  // jmp to the address behind the instruction
    std::memcpy(memory.at(stub, kStubSize), kJump, sizeof kJump);
    std::memcpy(memory.at(stub, kStubSize) + sizeof kJump, &function, sizeof function);
    return stub;
  }

  void relocate(const Elf64_Shdr& table, Memory& memory) {
    expect(table.sh_info < places_.size());
    const auto place = places_[table.sh_info];
    if (!place) return;
    const std::string_view contents = bytes(table);
    for (size_t at = 0; at < contents.size(); at += sizeof(Elf64_Rela)) {
      const auto entry = read<Elf64_Rela>(contents, at);
      const auto type = ELF64_R_TYPE(entry.r_info);
      const size_t index = ELF64_R_SYM(entry.r_info);
      expect(index < symbols_.size());
      // Of what is outside only calls can go by way of a jump.
      expect(type == R_X86_64_PLT32 || (type == R_X86_64_PC32 && symbols_[index].st_shndx != SHN_UNDEF));
      const size_t from = *place + entry.r_offset;
      // Unsigned until it is looked at: in a damaged object any of these may be anything.
      const auto distance = static_cast<int64_t>(target(index, memory) + static_cast<uint64_t>(entry.r_addend) - from);
      expect(distance >= std::numeric_limits<int32_t>::min() && distance <= std::numeric_limits<int32_t>::max());
      const auto narrow = static_cast<int32_t>(distance);
      std::memcpy(memory.at(from, sizeof narrow), &narrow, sizeof narrow);
    }
  }

  std::string_view object_;
  const std::function<void*(std::string_view)>& resolve_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::string_view names_;
  std::vector<std::optional<size_t>> places_;  // of sections, in the memory
  size_t stubs_ = 0;
  size_t size_ = 0;
};

}  // namespace

void* load_object(std::string_view object, std::string_view name, const std::function<void*(std::string_view)>& resolve) {
  try {
    return Loader(object, resolve).load(name);
  } catch (const Unknown&) {
    return nullptr;
  }
}

}  // namespace evalframe::native
