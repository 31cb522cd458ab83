from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.adoption import adopted_xml

from tests.unit.plugins.module_utils.hypervisor import recorded_libvirt

# What `virsh dumpxml --inactive` prints of a guest that virt-install made, with UEFI, a TPM and SPICE.
HONEST = """<domain type='kvm'>
  <name>web1</name>
  <uuid>5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11</uuid>
  <title>web / staging</title>
  <metadata>
    <libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">
      <libosinfo:os id="http://debian.org/debian/12"/>
    </libosinfo:libosinfo>
  </metadata>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='KiB'>2097152</currentMemory>
  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
  <vcpu placement='static'>2</vcpu>
  <iothreads>1</iothreads>
  <cputune><vcpupin vcpu='0' cpuset='0-3'/></cputune>
  <resource><partition>/machine</partition></resource>
  <sysinfo type='smbios'><bios><entry name='date'>01/02/2020</entry></bios></sysinfo>
  <os firmware='efi'>
    <type arch='x86_64' machine='pc-q35-9.0'>hvm</type>
    <firmware><feature enabled='no' name='enrolled-keys'/><feature enabled='yes' name='secure-boot'/></firmware>
    <loader readonly='yes' secure='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.ms.fd</loader>
    <nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>/var/lib/libvirt/qemu/nvram/web1_VARS.fd</nvram>
    <boot dev='hd'/><bootmenu enable='no'/><smbios mode='sysinfo'/>
  </os>
  <features><acpi/><apic/><hyperv mode='custom'><relaxed state='on'/></hyperv><vmport state='off'/><smm state='on'/>
  </features>
  <cpu mode='host-passthrough' check='none' migratable='on'><topology sockets='1' dies='1' cores='2' threads='1'/></cpu>
  <clock offset='timezone' timezone='Europe/Berlin'><timer name='rtc' tickpolicy='catchup'/></clock>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
  <pm><suspend-to-mem enabled='no'/><suspend-to-disk enabled='no'/></pm>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native' discard='unmap'/>
      <source dev='/dev/drbd3'/><target dev='vda' bus='virtio'/><serial>WD/1</serial><boot order='1'/>
      <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='/var/lib/libvirt/images/web1.qcow2'/>
      <backingStore type='file'><format type='raw'/><source file='/base.img'/></backingStore><target dev='vdb'/>
    </disk>
    <disk type='file' device='cdrom'>
      <driver name='qemu' type='raw'/><target dev='sda' bus='sata'/><readonly/><address type='drive' controller='0'/>
    </disk>
    <controller type='usb' index='0' model='qemu-xhci' ports='15'/>
    <controller type='pci' index='1' model='pcie-root-port'><model name='pcie-root-port'/><target chassis='1' port='1'/>
    </controller>
    <controller type='virtio-serial' index='0'/>
    <interface type='network'>
      <mac address='52:54:00:12:34:56'/><source network='default'/><model type='virtio'/>
      <driver name='vhost' queues='2'/>
    </interface>
    <interface type='bridge'><mac address='52:54:00:12:34:57'/><source bridge='br0'/>
      <vlan><tag id='42'/></vlan></interface>
    <serial type='pty'><target type='isa-serial' port='0'><model name='isa-serial'/></target></serial>
    <console type='pty' tty='/dev/pts/3'><source path='/dev/pts/3'/><target type='serial' port='0'/></console>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <channel type='unix'><source mode='bind' path='/var/lib/libvirt/qemu/f16x86_64.agent'/>
      <target type='virtio'/></channel>
    <channel type='unix'>
      <source mode='bind' path='/run/libvirt/qemu/channel/1-web1/org.qemu.guest_agent.0'/><target type='virtio'/>
    </channel>
    <channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
    <input type='tablet' bus='usb'/><input type='mouse' bus='ps2'/><input type='keyboard' bus='ps2'/>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0' persistent_state='yes'/></tpm>
    <graphics type='spice' autoport='yes'><listen type='address'/><image compression='off'/><gl enable='no'/></graphics>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1' keymap='en-us'/>
    <sound model='ich9'><codec type='micro'/><audio id='1'/></sound><audio id='1' type='spice'/>
    <video><model type='virtio' heads='1' primary='yes'><acceleration accel3d='no'/></model></video>
    <redirdev bus='usb' type='spicevmc'/>
    <watchdog model='itco' action='reset'/><memballoon model='virtio'><stats period='5'/></memballoon>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <panic model='isa'/><vsock model='virtio'><cid auto='yes'/></vsock><hub type='usb'/>
    <iommu model='intel'><driver intremap='on'/></iommu>
  </devices>
  <seclabel type='dynamic' model='apparmor' relabel='yes'/>
</domain>"""


def test_what_virt_install_makes_is_accepted_as_it_is() -> None:
    assert adopted_xml.accept("web1", HONEST) == adopted_xml.Accepted(HONEST)


@pytest.mark.parametrize("kind", ["cdrom", "floppy"])
def test_media_are_taken_out_of_their_drives(kind: str) -> None:
    drive = f"<disk type='block' device='{kind}'><source dev='/dev/sr0'/><target dev='sdb'/></disk>"
    found = adopted_xml.accept("web1", HONEST.replace("<controller", drive + "<controller", 1))
    assert found.media == ("/dev/sr0",)
    assert "/dev/sr0" not in found.xml
    assert adopted_xml.accept("web1", found.xml) == adopted_xml.Accepted(found.xml)


EVIL_DEVICES = [
    "<emulator>/tmp/attacker</emulator>",
    "<emulator>/usr/bin/../../tmp/qemu-kvm</emulator>",
    "<emulator>/usr/bin/python3</emulator>",
    "<emulator>attacker</emulator>",
    "<emulator/>",
    "<filesystem type='mount'><source dir='/'/><target dir='root'/></filesystem>",
    "<hostdev mode='subsystem' type='pci'/>",
    "<shmem name='x'/>",
    "<lease/>",
    "<pstore backend='acpi-erst'><path>/etc/x</path></pstore>",
    "<disk type='block' device='lun'><source dev='/dev/sda'/><target dev='sdb'/></disk>",
    "<disk type='file'><driver name='qemu' type='vmdk'/><target dev='vdc'/></disk>",
    "<disk type='file'><target dev='vdc'/><mirror type='file'><source file='/etc/x'/></mirror></disk>",
    "<serial type='file'><source path='/etc/cron.d/x'/></serial>",
    "<serial type='pty'><source path='/etc/cron.d/x'/></serial>",
    "<serial type='pty'><log file='/etc/cron.d/x' append='on'/></serial>",
    "<serial type='unix'><source mode='bind' path='relative'/></serial>",
    "<disk type='file' rawio='yes'><target dev='vdc'/></disk>",
    "<serial type='dev'><source path='/dev/sda'/></serial>",
    "<serial type='pipe'><source path='/tmp/x'/></serial>",
    "<console type='tcp'><source mode='connect' host='localhost' service='1811'/></console>",
    "<channel type='unix'><source mode='connect' path='/run/libvirt/libvirt-sock'/></channel>",
    "<channel type='unix'><source mode='bind' path='/run/libvirt/libvirt-sock'/></channel>",
    "<channel type='unix'><source mode='bind' path='/var/lib/libvirt/qemu/channel/../../x'/></channel>",
    "<channel type='unix'><source mode='connect' path='/var/lib/libvirt/qemu/x.agent'/></channel>",
    "<interface type='ethernet'><script path='/tmp/x'/></interface>",
    "<interface type='bridge'><script path='x'/></interface>",
    "<interface type='bridge'><source bridge='br0'/><rom file='/etc/shadow'/></interface>",
    "<interface type='bridge'><source bridge='br0'/><backend tap='/dev/sda'/></interface>",
    "<interface type='hostdev'/>",
    "<interface type='vhostuser'><source type='unix' path='/tmp/x' mode='client'/></interface>",
    "<interface/>",
    "<input type='evdev'><source dev='/dev/input/event0'/></input>",
    "<input type='passthrough'><source evdev='/dev/input/event0'/></input>",
    "<tpm><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>",
    "<tpm><backend type='emulator'><source type='file' path='/etc/x'/></backend></tpm>",
    "<tpm><backend/></tpm>",
    "<graphics type='vnc' socket='/tmp/x'/>",
    "<graphics type='vnc' keymap='../../etc/x'/>",
    "<graphics type='spice'><gl enable='yes' rendernode='/dev/sda'/></graphics>",
    "<graphics type='egl-headless'/>",
    "<audio id='1' type='file' path='/etc/cron.d/x'/>",
    "<rng model='virtio'><backend model='random'>/dev/sda</backend></rng>",
    "<rng model='virtio'><backend model='egd' type='tcp'/></rng>",
    "<redirdev bus='usb' type='tcp'><source mode='connect' host='x' service='1'/></redirdev>",
    "<smartcard mode='host-certificates'><database>/etc/x</database></smartcard>",
    "<memory model='nvdimm'><source><path>/dev/sda</path></source></memory>",
    "<memory model='dimm'><source><path>/dev/sda</path></source></memory>",
    "<x:disk xmlns:x='urn:x'/>",
    "<sound model='ich9' x:a='1' xmlns:x='urn:x'/>",
]
EVIL_SYSTEM = [
    "<kernel>/boot/vmlinuz</kernel>",
    "<initrd>/tmp/initrd</initrd>",
    "<cmdline>init=x</cmdline>",
    "<init>/bin/sh</init>",
    "<dtb>/etc/x</dtb>",
    "<acpi><table type='slic'>/etc/shadow</table></acpi>",
    "<loader readonly='yes'>/etc/shadow</loader>",
    "<loader readonly='yes'>/usr/share/../../etc/shadow</loader>",
    "<loader readonly='no' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>",
    "<loader type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>",
    "<nvram>/etc/shadow</nvram>",
    "<nvram>relative</nvram>",
    "<nvram>/var/lib/libvirt/qemu/nvram/other_VARS.fd</nvram>",
    "<nvram template='/etc/shadow'/>",
    "<nvram type='file'><source file='/etc/shadow'/></nvram>",
    "<nvram type='block'><source dev='/dev/sda'/></nvram>",
]
EVIL_PARTS = [
    "<seclabel type='none'/>",
    "<seclabel type='static' model='dac'><label>root:root</label></seclabel>",
    "<sysinfo type='fwcfg'><entry name='opt/x' file='/etc/shadow'/></sysinfo>",
    "<sysinfo type='smbios'><bios><entry file='/etc/shadow'/></bios></sysinfo>",
    "<bootloader>/tmp/x</bootloader>",
    "<launchSecurity type='sev'/>",
    "<resource><partition>/machine/../x</partition></resource>",
    "<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:arg value='-x'/></q:commandline>",
    "<qemu:override xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/>",
    "<features>" + "<a>" * 20 + "</a>" * 20 + "</features>",
]
EVIL = [
    *(f"<domain><devices>{part}</devices></domain>" for part in EVIL_DEVICES),
    *(f"<domain><os>{part}</os></domain>" for part in EVIL_SYSTEM),
    *(f"<domain>{part}</domain>" for part in EVIL_PARTS),
    "<domain type='xen'/>",
    "<network/>",
    "no XML",
    "<!DOCTYPE domain [<!ENTITY x SYSTEM '/etc/shadow'>]><domain><title>&x;</title></domain>",
    recorded_libvirt.DUMP,
]


@pytest.mark.parametrize("xml", EVIL)
def test_a_definition_with_anything_else_is_refused(xml: str) -> None:
    with pytest.raises(errors.InvalidInput, match="its definition"):
        adopted_xml.accept("web1", xml)
