// The loader of object code on an object made here, and on damaged ones.
#include "backends/native/machine/object_loader.h"

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/testing.h"

namespace evalframe::native {
namespace {

int called_with = 0;
int helper(int value) {
  called_with = value;
  return value + 1;
}

template <class T> std::string raw(const T& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

// int entry() { return outside(constant); }
std::string object_that_calls(unsigned call_type) {
  const std::string code("\x48\x83\xec\x08\x8b\x3d\0\0\0\0\xe8\0\0\0\0\x48\x83\xc4\x08\xc3", 20);
  const std::string constant = raw(41);
  const std::string names("\0entry\0outside\0", 15);
  Elf64_Sym none{}, entry{}, data{}, outside{};
  entry.st_name = 1, entry.st_shndx = 1;
  data.st_shndx = 2;
  outside.st_name = 7;
  const std::string symbols = raw(none) + raw(entry) + raw(data) + raw(outside);
  const std::string relocations = raw(Elf64_Rela{6, ELF64_R_INFO(2ULL, R_X86_64_PC32), -4}) + raw(Elf64_Rela{11, ELF64_R_INFO(3ULL, call_type), -4});
  const std::string contents[] = {"", code, constant, names, symbols, relocations};
  const unsigned types[] = {SHT_NULL, SHT_PROGBITS, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB, SHT_RELA};
  std::string body(sizeof(Elf64_Ehdr), '\0');
  std::string table;
  for (size_t i = 0; i < 6; i++) {
    Elf64_Shdr section{};
    section.sh_type = types[i];
    section.sh_offset = body.size();
    section.sh_size = contents[i].size();
    section.sh_addralign = 4;
    if (types[i] == SHT_PROGBITS) section.sh_flags = SHF_ALLOC;
    if (types[i] == SHT_SYMTAB) section.sh_link = 3;
    if (types[i] == SHT_RELA) section.sh_info = 1;
    body += contents[i];
    table += raw(section);
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = ET_REL, header.e_machine = EM_X86_64;
  header.e_shoff = body.size(), header.e_shentsize = sizeof(Elf64_Shdr), header.e_shnum = 6;
  std::memcpy(body.data(), &header, sizeof header);
  return body + table;
}

void* outside(std::string_view name) { return name == "outside" ? reinterpret_cast<void*>(&helper) : nullptr; }

TEST(LoadedCodeReadsItsConstantsAndCallsFunctionsOutside) {
  void* const entry = load_object(object_that_calls(R_X86_64_PLT32), "entry", outside);
  EXPECT(entry != nullptr);
  EXPECT(reinterpret_cast<int (*)()>(entry)() == 42);
  EXPECT(called_with == 41);
}

TEST(WhatTheLoaderDoesNotKnowIsLeft) {
  const std::string object = object_that_calls(R_X86_64_PLT32);
  EXPECT(load_object(object, "other", outside) == nullptr);
  EXPECT(load_object(object, "entry", [](std::string_view) -> void* { return nullptr; }) == nullptr);
  EXPECT(load_object(object_that_calls(R_X86_64_GOTPCREL), "entry", outside) == nullptr);
  EXPECT(load_object("", "entry", outside) == nullptr);
}

TEST(DamagedObjectsAreLoadedOrLeftButDoNoHarm) {
  const std::string object = object_that_calls(R_X86_64_PLT32);
  for (size_t size = 0; size < object.size(); size++) EXPECT(load_object(object.substr(0, size), "entry", outside) == nullptr);
  for (size_t at = 0; at < object.size(); at++) {
    for (const unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string damaged = object;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      load_object(damaged, "entry", outside);
    }
  }
}

}  // namespace
}  // namespace evalframe::native
