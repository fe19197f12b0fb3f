/* SPDX-License-Identifier: Apache-2.0
 *
 * root_elf.c: the few parts of an ELF file that name other files. Every offset of the file is checked against its size. */
#include "package/root_elf.h"

#include <elf.h>
#include <string.h>

struct view {
    const char *path;
    struct gr_map map;
    Elf64_Ehdr head;
};

static enum gr_status damaged(const struct view *v, const char *what, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_FORMAT, "%s: damaged program file: %s", v->path, what);
}

static bool inside(const struct view *v, uint64_t offset, uint64_t n)
{
    return offset <= v->map.size && n <= v->map.size - offset;
}

static enum gr_status read_head(struct view *v, struct gr_err *err)
{
    if (v->map.size < sizeof v->head || memcmp(v->map.data, ELFMAG, SELFMAG) != 0 ||
        v->map.data[EI_CLASS] != ELFCLASS64 || v->map.data[EI_DATA] != ELFDATA2LSB) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: is no 64-bit program", v->path);
    }
    memcpy(&v->head, v->map.data, sizeof v->head);
    if (v->head.e_phentsize != sizeof(Elf64_Phdr) ||
        !inside(v, v->head.e_phoff, (uint64_t)v->head.e_phnum * sizeof(Elf64_Phdr))) {
        return damaged(v, "program headers", err);
    }
    return GR_OK;
}

static Elf64_Phdr segment(const struct view *v, int i)
{
    Elf64_Phdr p;
    memcpy(&p, v->map.data + v->head.e_phoff + (size_t)i * sizeof p, sizeof p);
    return p;
}

/* Where an address of the running program lies in the file; false: nowhere. */
static bool file_offset(const struct view *v, uint64_t address, uint64_t *offset)
{
    for (int i = 0; i < v->head.e_phnum; i++) {
        const Elf64_Phdr p = segment(v, i);
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz) {
            *offset = p.p_offset + (address - p.p_vaddr);
            return *offset >= p.p_offset;
        }
    }
    return false;
}

static bool copy_text(const struct view *v, uint64_t offset, uint64_t end, char *out, size_t cap)
{
    if (offset >= end || end > v->map.size) {
        return false;
    }
    const size_t n = strnlen((const char *)v->map.data + offset, (size_t)(end - offset));
    if (n == end - offset || n >= cap) {
        return false;
    }
    memcpy(out, v->map.data + offset, n + 1);
    return true;
}

static enum gr_status read_dynamic(const struct view *v, const Elf64_Phdr *p, struct gr_elf *out, struct gr_err *err)
{
    uint64_t strings = 0, n_strings = 0, search = UINT64_MAX, offset = 0;
    const uint64_t n = p->p_filesz / sizeof(Elf64_Dyn);
    if (!inside(v, p->p_offset, p->p_filesz)) {
        return damaged(v, "dynamic section", err);
    }
    const uint8_t *table = v->map.data + p->p_offset;
    for (int round = 0; round < 2; round++) { /* first where the strings are, then what they say */
        for (uint64_t i = 0; i < n; i++) {
            Elf64_Dyn d;
            memcpy(&d, table + i * sizeof d, sizeof d);
            if (d.d_tag == DT_NULL) {
                break;
            }
            if (round == 0) {
                strings = d.d_tag == DT_STRTAB ? d.d_un.d_ptr : strings;
                n_strings = d.d_tag == DT_STRSZ ? d.d_un.d_val : n_strings;
                search = d.d_tag == DT_RUNPATH || (d.d_tag == DT_RPATH && search == UINT64_MAX) ? d.d_un.d_val : search;
            } else if (d.d_tag == DT_NEEDED) {
                if (out->n_needed == GR_ELF_NEEDED_MAX || d.d_un.d_val >= n_strings ||
                    !copy_text(v, offset + d.d_un.d_val, offset + n_strings, out->needed[out->n_needed],
                               sizeof out->needed[0])) {
                    return damaged(v, "name of a library", err);
                }
                out->n_needed++;
            }
        }
        if (round == 0 && (!file_offset(v, strings, &offset) || !inside(v, offset, n_strings))) {
            return n_strings == 0 ? GR_OK : damaged(v, "string table", err);
        }
    }
    if (search != UINT64_MAX &&
        (search >= n_strings || !copy_text(v, offset + search, offset + n_strings, out->search, sizeof out->search))) {
        return damaged(v, "search path", err);
    }
    return GR_OK;
}

enum gr_status gr_elf_read(const char *path, struct gr_elf *out, struct gr_err *err)
{
    struct view v = {.path = path};
    memset(out, 0, sizeof *out);
    GR_TRY(gr_fs_map(path, &v.map, err));
    enum gr_status status = read_head(&v, err);
    out->machine = v.head.e_machine;
    for (int i = 0; status == GR_OK && i < v.head.e_phnum; i++) {
        const Elf64_Phdr p = segment(&v, i);
        if (p.p_type == PT_INTERP &&
            !(inside(&v, p.p_offset, p.p_filesz) &&
              copy_text(&v, p.p_offset, p.p_offset + p.p_filesz, out->loader, sizeof out->loader))) {
            status = damaged(&v, "name of the loader", err);
        } else if (p.p_type == PT_DYNAMIC) {
            status = read_dynamic(&v, &p, out, err);
        }
    }
    gr_fs_unmap(&v.map);
    return status;
}
