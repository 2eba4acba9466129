"""The direction numbers of Sobol sequences by S. Joe and F. Y. Kuo (new-joe-kuo-6.21201, 2008), for
the first 1111 dimensions.

A dimension after the first has a primitive polynomial over the integers modulo 2, of degree s, and
s odd numbers m_1 ... m_s with m_i < 2^i. The text is base 85 of bits, dimension after dimension:
the coefficients of x^1 ... x^(s-1), then of each m_i its bits 1 ... i-1 (bit 0 is 1).
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

MAXBIT = 30  # bits of a number
# How many dimensions have a polynomial of degree 1, 2, ...
COUNTS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630)
MAXDIM = 1 + sum(COUNTS)


def direction_numbers(dimension: int) -> Any:
    """An array (dimension, MAXBIT) of int64: bit j of the Gray code of a point's number brings in
    column j.
    """
    numbers = np.ones((dimension, MAXBIT), np.int64)
    bits = np.unpackbits(np.frombuffer(base64.b85decode(TEXT), np.uint8)).tolist()
    degrees = [s for s, count in enumerate(COUNTS, 1) for _ in range(count)]
    position = 0

    def read(n: int) -> int:
        nonlocal position
        position += n
        return sum(bit << k for k, bit in enumerate(bits[position - n : position], 1))

    for row, s in zip(numbers[1:], degrees):
        polynomial = 1 << s | read(s - 1) | 1
        m = [1 | read(i) for i in range(s)]
        for j in range(s, MAXBIT):
            value = m[j - s] ^ (m[j - s] << s)
            for k in range(1, s):
                if polynomial >> (s - k) & 1:
                    value ^= m[j - k] << k
            m.append(value)
        row[:] = m
    return numbers << np.arange(MAXBIT - 1, -1, -1)


TEXT = (
    "=!l`M3KA(f+0p{Ur>o(P4#TR09gid88#@|hOW^l;nH{$g;XIGRQU+Pb$~EN`zsil0ymgSoerzNFJv6SR6LC`4pxIv<;w"
    "K_49?H<LJHY$*Wu7znM#6DFux0fx`}`TCwMI{}mg|WRPpt)M8^iEClR-3rnPO#5IUVQ()3|ivbBT|=o$M7tycl?5ZB84"
    "{;SyN0#ecn8^s1{N5UIt}UwaK;4Uj|#2y>zhR)~+DW}lcAh4F2pLrKBst@J)xRu9t8zEY8P>=Sw4xlO|Vn-~gwO#7Cg9"
    "3fS2pGi`7uy-g}qJ@IMf=X|24f}qo3a}}l+E3WW{P(OA=Gy$`P$hrn;bXVSPYJd(R=(Qx;DL+_H9lMqJ^+asa-#F<QG>"
    "1b@sArV<<%L9Fd%XDA(W8(F!H$<C|eNjT(0M);kBlRHOau%HLv1}txHf_YDU-cke)}K@R{X+f7$0b8sI|!0!W+QIr^?J"
    "k6UtVtRAzy5;{Y5$Jniv!kTnwOb>Er{LT~AWp)c>$~HI7ZJ^`m`!=vY_b)1t(&KCWogrS5AWn!%Keal*(r54ZS?q+xjZ"
    "d3uS_zkM4_mxUcPt_i0C%xe-vXa0P$8fGDsw34jJ9CtK2%0bq7FxyA6dkE9?4&f;h_0<Q*!5-ljIH25dJ;R`_Njsg$a`"
    "riojzPf7H%oDxykx-)h^D8F0si%se&ZGO)8vX!ubhHn%x3HD5DrAOxMQai@ijmBkFG_1fF6PBv7krWHx_#&*+%jyVfb8"
    "grqnrycSQ%P_2z_Q+q}AhUPh4wr-kKffngQ=Q<-LW{%RnZ$(*Am!8@z>+bpUzfKn*tkEO(83NA-32<|1dd5ef3U5MEh}"
    "H$=ocP5p{@hy#)I;??1a|dk}TONuaV4_x*o)&D*y(DVg;wWnp*XaFsj<$Z5oP-UmD-LQ}WgO3(>CFa{>LG$HIH3FKghM"
    "!BQm7I!<|@H<ylI#iY`LeI+fI@JiF^td&?GX3^-`jdSVl!}Umwp6bc}>#6sYwe2{{_B~|!*s%a4^4XOvvo9O#IG@|CLf"
    "*>e^%6dL`+Q!f^sSHMWH^jx%|JJ?k9cwru4o>{wJW(E#wr8wO{bbxCrtr#BQVLdOx!{Md^+BS_RL_|gokZr&Mh!j;lrm"
    "u*@8HHWj-S9>Vv#7sI<&@fp9SsMDQB1&omT-tOMt%-n!mK=Hx%oUi<Q*1|wkN{Q>~c%wfWqSh(AmWXE~2#y+qtIlQR}w"
    "kZw{6lMK+-y2%z3*)KWwD;aCfo#p`p^Po7$LNKG&?{Zm6N0WO+`TnCiJ5^58t$*bBm+`Iwh%g&QYr45M#)5PxjIdWlHb"
    "aHyo>~Tu(w8x(MKCqVa1{$gr|gSOf}m8AyFoF<kVc3{i$P}ff-TU26V~Q?T_rO`nrBdQxm{EY5gnXgzBC*>_LN#fBOhD"
    "7<j?=3S*>6Qgvs2l@x*}enzw1VrG<ZIMLbs*;;2|jNcrQ%%z$SqA+eXbQLi?S4&SKGy)8xV#9BdR|jQhwbVc)X?xY!DL"
    "<GH6_MzrTBRuq(h_V15lGsF0@iW^lyoSfaE!V?Ep@m_LrOcEdS&wrp1qCi(NR9OMoC(k_fn-#D8MW6Il2r#lgU6s9-f`"
    "lDg}?Aqcj@GluRewvxR8c%FGjE(M+lhl`0R6yIDM7s)j$tm3YUv%|_LB1&Lx27NUv?-;KReYS8QTV+=QTUue4_^*^bhA"
    "$1kVPi&VQH@Y#d{rGH&Ha%|E7_uEcdcLpP#ar(B{6N;M1js+8jEH9Y!-&woQ{pr6&kW`AH_4fqHkD88=>N=0*#Br+gQy"
    "lLrCe{9>f1{xCV@3kw&*pGZ7S*{Sde<dnVEjeHyBf7McZ`#887{|FY+@N)#umS{PDd<Wm1+M*`pqJ-J>dw(M?QG08}R@"
    "13(1@0V_gNjFt&f^*#D^)v*<lUn6XG=n`oGhAD4va`JnY<DEzHdy60<QC@__y+7(i3Fw;%-fp-Iqpn}gpIw_Lhfnx-Z>"
    "hyK!Hf*4P(Eu3cmF#cSQSEKoe1ZJrVcZ8GD@U4j|GnmnO84AmZBmu=~1q(yfF%3vJlT+y;#OYw6joPa-2-T&W95@kfAL"
    "NdT2ipUWl93_x(QbZdy+xiVpr2Jo_ZNp#vNr8Z(kVm5ib-V}fb2@er^=5bN~E@>`A(0sh8Y^iF4q@7XgZoSg7e*SjU0m"
    "Y<6EFkMQ@r{Ls6Fu|zgucbWEmuvZQDQV2}A_I4MHmlirnhkRTv<j_0s$AINMTI{FPg3@{wH87Yhoq^pSFjg*ArPnSEQO"
    "_3^bm#sR@u=Q9I9V_D;FU`&Jv*oRRIDDuE1}&YK&25R*)$$jZP3ukE*83_Pgp;JKf>7hgq|Iwh7x$5^JKkjlinlzcvv5"
    "q6ro-iCU!;1DQA^2JIr+*jqHT>h{`k>+Gmo>nBf8JAc&Ko$I>BDYA1cuPxlDiG@cK)FJ8|-`K@#UOe|;55$QTR$BXCWo"
    "qn^g}DPS#2XD}mLB1-3ANGP^05f{G!}?cuQud<{a6=Ze_tv$z&;lWzd@58NU(<Q&T#XM+<yKE(~`a>e4%1)OR$EM<RdW"
    "S;;{Uw+^b5?;j41=?(a5>ep9QCcpO24CJo;&KcqAnXgtr4o>d1OXM{eWEp=UUVEpdfma?{KJx?Oj%NrTQ_8S{t6{R6Mb"
    "=ih;y77#d@adXh^L}D$Gl0Tq-M28dloBsHGub(U#YyR`L+zW}jDex+bq-<9zmjTxn8$M;B*J}8gfsE8EYEhcXW7!dax="
    "Z5$GYOzc0=EvTWfXhZitP((QUke4tGz8Bjwx<t3ooF{xlvXjMow3eEd&QDNX{3TxF-phsy8`iu|+ny$+u0q=aSZm(yhq"
    "R23TkBJD#?^BIeMl`LIU8plR|nGEs=zPrS~YDG&t?eT>_@c7)PL_$(u+=_J$7E=zC4@J)k<I^tBIbec2ombGw(7G=M`W"
    "oP!y@sj+_%+3+mTo7UqjMl{T&WmPzU2H12UL1n{0EdEVz^(OT-!yrGj^CE+daC4A`8!a@e1-*whULT)VxTssbq{|GCd@"
    "2M2G~Mx&O)|G0G<AU+ejGgMj@}TApDa@Wdx427%sK63M{QQ0}xA(Vy++g_?ZGV=Y%#?@a!QNSheC&nJWopucIj8QS>>$"
    "k|wFJ;W`@R<<OJTn520NboFYQT<n4iLIP_(@<3+f;>g&Q2Y22@{P|j0&Z{4KnCIt(~$)IGBM3Jgw*_kDjF(!0rSu))K&"
    "w!C+a#(R)L{^!7xv}I;vewJrI)0rg#Muo*3yz%K5lk(1|$B{K!HGXf2WaCM$wVQ!DYkEvGU3<!?-YW9)1Bm7~W<l13aV"
    "11ufuUyP|ENdE_5a0s14Ei3tSXEb25jLF#*>Ug<c4*NajS(v63%kAsE+TE5){{ap6e!3Xz?BGKRgv{oTk6mO}*g<D*a>"
    "(|&yI&$ol_e?-PDkw>6_Ub{V{rq%Cz!69m{6jD+51(+47ae#d}4A*<s>(Np13!>(#5GPEUi5zMn$<Y$fZ7*-{_kBPvKI"
    "^_)n~z+O}hg;ou}tzKTWi8B}6Ukhb6i{)Hy4l<gIy_%&#hbzN!ZU?;4|ZELDEEK;TKLRl@{0vZ?%zlL^?HR>(A(KU9qz"
    "~~^@SiTL3ek0Q+CLw)8ZR0VH_*F9cOa-*)B#SI*nn@&_`9)};l&lhc1MWR-QY^h;aj{ZAFt{1DM_*av<_QBBdj>m8`qg"
    "8;1`W)G$>k^8G*>>~LN1lLSfz}S_SM&RbcW}^AE8H7N3~gqHT19CjP|`vnNWOB6sB&?>sW%Q@;llZ+wUoFq5c~vQM`cr"
    "azCP?{kOv6)Fl3HVe^wVK+B=Z*;^d4y?zwLjwEOFUBca-S)^YPOIppv%S2<Mo4p}Uy4JNXcOQM1G7;pDFY3g+!Z5|rD%"
    "1x{C*+z@os662g#|Iqs6@5y@?4r}&sCh5Ry^HuFHD*bE;;~O4`W7X%C~bkp<arSvlpCib}RY;>OGPrdwB4vcZ*P*;(=x"
    "TUXI$ooafLc^wt}7U0cs9Hg@xtI9&f-g-Lrg&5JZ$d@3)VVP`4#6RdGDNcbl!-n~7I63d|`u(aFn>b22cLeFk4$a<&zT"
    "9O`WVC^ULexcW|z}vI=Hk!a*tQSD`JB@_jbq%po*ogS)Q>|of!%3H8{T0^l<4N4cw^cnDQSDnZkIY5<812@H(@_My1vq"
    "6XpDv!wf1K}{<kz2fBe-5WwD7u>2esSuobcwpbKJfCE|{*2c}%#_8NbYoH6My)${@*>dTamjI_}*DSG0qcoh}!N<UJ>Y"
    "-8L^Ev^kNW&N`3sFv7w(PI|)M<;V-yqw;&J2z#3f7#TuS_Y$VzHznrKu9?Ca)2V4I{Sb`LL9=J{3=fUMXXb5EiM$!EQ*"
    "$&Gv#7?$w0_=sthrz5Q6bDVcq}mS(DQ*^qymY4Q@RU@7CP3%D{_fYCm;pSvjtd7&l4onzXFwN*sxHXcpFedrPso6ouJz"
    "QRA3>!CL1U!($Qo<jfaXx66!qp&MF<{(3KTgV&#i4^%@0CT|~_Y4@XzCv<-Le;+xSs<Z*dx4Vg|JDaw}1;99ixXsplBG"
    "ibAUKNG)BeWC&*$SN0w+l!?2)F@1-Ss5|k6(b-K@|B#?5$tv$2n;;HVoi^fKF}f+D6Mz0d~!G_c`GEX8awSLSsnNtdd9"
    "OphC!YxG&^?OUGS?~!6Oxe3ytsF5Hx^1@!h7x{uglk0V6m@XRrWPS!ttRT)%NDvIC5ZK{o@QpO%|NfDrbVEUG-i!Y%qx"
    "D@H7pZV*+LKR-+i?EdV#UK#ILk2?Ys3vnYZYM^PYDj+8VR!vVG<YxEnh#>woU{rB$2oUn}0#k+F_X!eUMM6@7-{^XP;e"
    "rhm#%`ckV4lrI&X-z_s^}`k5ZvV>D6R~HdIU)u6VH|MBX?h+fS;AvD_>km0hH2U-+v@{JDzx8x?DIS(>%Vn*AIWXQ=S4"
    "6!m5!NR~F8x7(ne>wZG_N$|9Qe5Wtm9yM*;NgVhkEC}PRQCk>zfZjtE^)rv#bb5K(SB(6Y5pGPphJ#iLrh)|%IKVP}Pl"
    ";72NGzAi+=%y3Lc^Oiz3pSc(bh6`C7{|{+!Mh7sz2-SM>cTL~?khFp34)(Ab4)rG5y(L3fJGg{a}M!u31D$eGjVpl!Ox"
    "N=`VPssRE-dD0Lh?mHO-|J#D^RqMEKvYkUrCka%T?;rOiMNc*EJoeZdE7o@jTN=PX6&@L1G&$$1wvKD3;CB&hFrQePD0"
    "bYZ^%xX0Hp&lcC%?+hSVz?e-#U!`AQq=^359pFf=+=9H%Vm!cOAr<;6H6ki_iaj)9DzQoi-mc*xade=ha;n~6MEgiVXj"
    "i7<)sO9YNzy%Y_jFuH=|kqfJcTElN=+}pP3R2&A}5JD87njE))(?9Ds_S|aZ@x~ZbM2b&#o9TriXyqjIx1$23O8Pch;y"
    "wCZVavRcL3EF2obxs3Qllrq6F$c>N8U1_zOv04`4U);jKj#Z-*`zmY10$v2`#;ala5)J+7WtLXV}YM*>DRf0<m1`V~TE"
    "gPrJB5&Zyg$Or5g#acUh_C8n2SAKwJ><41k?dHCrJ=5-qEHJ>aaIRu>yy4R^53P~HHBMroj7<t@CBE9V60sR)sp6RhuB"
    "fr$XA{5)*ecQ^+on844GUN2Yh5V<HLtN1~^3n1iyeXSm6G*3cII)n45T|IMAd!0wke;$6sD9B&9$YFKD#6t>7z%1yAgR"
    "g8`B!b_U|7rhdzSs7II)O}NwugWB%=swdB4?m5{>wT4Yu=d?u+j~${Sw^C4`RGr)7%Sl9^i~VMz=JWV!F|QDw_T>+74u"
    "JzkiI+p36K&zEkV$b_XjW?|v;`PE6L>l3Trs71IeG+yO1C)@;HkV5babH~c7QyV6z3q=7I;IO!j{GoLkg?@MHATF9v3x"
    "3%TALmL|M-C*1ky4XS)b7Ezzb%Ruw?2V~=b|);n^LVR$x{uKyEKC%IP3K}`R&h$I`{$RhD9)w*T|$u3mu_hlUKyvvGmL"
    "PxPCKxv^r$r;v=%82;KMW}b$JpZJKpDUa=>R(7#gc&WFb|3cGpEE&M#z|Z8eir$!g!XNzlb6L2MJ6e46D~O9^x>2`_J%"
    "CC;$($CWJASp`~v!ajnPg@N;{Ii)lo%~98o3e&8l)>NzyU!l=QsSL;Nmcc~)hm5Ayswk6IO2S|vF^#c@VBo@KwghNV;8"
    "n*;^{$?yZ&6;!)IX-_qQ)M$m$H5LXq!}+?%VX*8SO`DGWSxv`63BI>dw3Bk}ac{I8*!(n(;k%Uh##gi6B8@!_UR%R8B6"
    "noYQ%tUpz;ni5{Im{?(@q)wOS~Y)Uj+{|NV}*BiT%g)VNb0&0P00ux`w2{t9wZ0zQ=G%-!QH;QPHgUSgyuCEB*1lbPSW"
    "CCJ#0`)SY8pGqo^Wu!d?;kwmXYb&5%LNRkCt2;ec}w+$n*6oyi-WDGfn9$4l8X`rb5Llg2@ft)*`)ir=<$P}Tas#(%Tg"
    "?PR)Q7e~qH8*VPsoG2ghHEo4bHN9Tl2be?o5!wEY{2dgG|J%DTd4Lp)|dB7F#Om&)wWnF@`XLj^-t#CQ(qk=r|$DDuqo"
    "0H^l{DyZo<eLTD4lNu6DfdWU-;DPbOO@-oTs#Ed1Yp2Ja|4E+=qn8gtU!QtRX&xT)H~PE!Dq@P5Y>avrm%<o#&y%ZyHP"
    "NNl)qKr>0;#ZB?XyCuWm`c7`#nTbDM!q@Yc&NIt%A6%qx*tZss`88=zTcVs*NZFT_2&Mbms^>E!p1#^Qk7&)i<-lE0#N"
    "GRnoBjdya2gPSjWC;#cUos$9cO9!aGLZoNAkBR*D|w@`eWV~Or6A?6&?_^<D}et&v9&fO{YP2fsiK{JXba?<T@iCdmpe"
    "*KQTI&eVQS|t4s^P+w2ETxP%4%TaNKi^<s3v>*Za{418mLFgBwRfEIFgpBMlt$VF=EYb`PN!*S#uFil0OVoUq+x?LQ^r"
    "I}g6L?QfE^&tYC5jq@aj{vgfz))vVqoK6rFf7SDzJVD0H~hvt3h&+mZ9?pqwGr5YehdQE3F8%XR9s-H6@!2y6DowR61X"
    "j|p_94=d==@t-U%%v30@=*-ZyuoLXWEd*g+QuG*Fi?gEiI?r1=h=8aP}kH7bbaf|*OVkx+@_J;gXXz0$U0x}w32`=b=i"
    "ZPZDPsEmE`exc-{N6dWsEyR5I1}-_f7G@cU^M&G1NEqf)9pz%Pq*if4GyxzBOW2UQk2e8VH&s%Qjv-$weY+ZnKraQ$i>"
    "P#vj>ijdwImzjwzjEVZk$X~e|UtMM)ra)b<#azG2tuTyvWcCK8_ORL`it^`4<LM&NAW)5+ysYb)eCPJizj#u#PP3?%vO"
    "bo8MU{c>U2LotpSH!+uJoq6{n<^pwhVKvH$)>w{-zz}9Z^l(UKrO7?UXn89~dAmyf?v?BR(a(#D7Y;X*Ye|QuO$p_M%A"
    "OXr&!g!N<tPF=3MHzaZi!+((lPw7+UqyKcK`OZX$aA<Gy*L&&DfvFKhz7cjiKncn5VLH&B*^a_pK(c{n0q0_kgNRN$f3"
    "5y;mSL)RVuqPRv1y8a*RcPekkYTfjG{5y3dD^GNKT^iEm#jBFcdZt(ofYY9K2mxtn4P7WCR$4hpO}`*%@PyUJj_!m9K)"
    "FwNUK;V``jqnaa_!9!Gr=X)kA-sohuDFcQT|AmTz7>ux(_RAv@p^}swB*^@TXqt~YETH0^<40_Jj9<7rDfwIibA5K9_m"
    "82<eE;|t$YqffP5$zmA)h#tadYcVfPAdlnBZvSp&6#_Qm8$4rkC*^-=gY*s(G-+)s4EZr{^qcy}((~;X$VZ$V5h}g1{j"
    "7atNjg2X(8N2#8ADXIYTk3u@Vt2DkeAz%q4Sx|n%+%Nn9|!eV`%s1x1(Wou&Uz9m3uq(%RF1MDQf_$3-V391f`aBQQVo"
    "+hN<-z)rw@F1hHNv*8j0y_}s>ADm;YpRwA80vG>Ej%5XjFiR>8wqz**_IZV_H_klouTGe^ChjHW>br_EtpE<TWL3zCdE"
    "lh<y>+v+CVHJFvk+}PyC4vfP%4&hzVYtF<sNFU|W>oOSaEZNUZ2?>=5S`YSk>;*1Ehxs3Mz;W3_!YZjHVrU(F@v&00Y>"
    "uY-8RnV<=Vxh@mxRZIhSC0!PuZD;z#L>}gnqmc~Ni-ECtcA7Oex(rcg2x@Ux#?@Nk=$htg87A~%DFDzIhD)}F%i~=QJN"
    "imN;veC&5XQVs?&LY>j09<Kls0RbZtPXo85p*X-}YYgIOU{K#ui{|Np2l0-u>>0ic#_*{*|<EeOO{{o=UbXpt8p;Wz?8"
    "s6Yy3SuftuvsHVnrUQbl4uqHD9si;Z`0Zm*HjMs*GWcdrtq7plUh`f=Rlu-_)q5Dq@>5*mysv^Nd97k?rJ6W?eA#lFlr"
    "_}@94sC-b)svTJey=*SnHe3gqL=1?O#-^+B&opqf|k~SoN<M}eP`e3As~WzvoUN|ckK2;?W=wVN?7PEmGJsW{NvkxmIV"
    "eggWKn>e-u+?lw#S_+dzR?I!n1`Jlzog?En4CJrP-c(!da9DuD3AyH?atDJ3Qx|7i4wHNJa|$&C&u@f0InZCb`PtRxR4"
    "k_kxJ_t7cqw{K~G@UAvQc`IIS+E$*Z11*w7f)^ny1ncVMt7mm6P#~WO4nlKQ+p{3pG6v|cwhKu1F?cwl6k8}!*Ytg*YZ"
    "BO}6;drWn}1~IH<AQEBs53va5)O{labAM*LX;Y4*Q+XZh~$$Fvg8TigE@MTpCI{q*N&E6rGF2=vSVF2MIe$%9vi@UX*t"
    "wUQT9=J^DA3$!IR})1ifCg%7VRt8F`U<${QCA9s704Ccc*PRVd>#mhi!PU_BPe|#S{2|1R28;id<-qBSio(uCk65yPjN"
    "0^O@=Ns6xx&J0BoN=hNnu0ejfhEa?pEoXrCYr0H8OC?+p+Q>)u$t)IlRChUuSE1(&bfRwA}p2s%QC0WZnE2nAnWPrIJ#"
    ">4kPM<Z!gXMn#IAni_4aL<>jJ3P?~r?>y6E~vt+ccR!XBc-8+80>lz_+NN04G>PeX3sr3Ql0>e1UOc1p%hA6$NT40#36"
    "MkjXPqaa?)1)eWuU@a}RZkMk$opi%%w4e8yW#%*5fp5Uba7n^Vcy$(zBtM>a_E2wLL__Evrgw-*R7p3k*?cVf66){aqA"
    "l!_T#u)Xb)(N?l=+n?dw_sw9$R?yzI2@z_9DD?PzO`5xM{rPYnGGCw-6iQ)r4$gkZZZh5&8M!O3nUJj3Ux!M}9v=7WiD"
    "5a2fVTKb9-1S-$(3;fl0x?06_Y0vzw9)UQ|i4C;Yvr3__z1>gSm3S#Zr7>fng{{U9`X4c*5KbF}<P!|sl|Ct;n=SK$22"
    "J$~VQjiU(Fj|g*q1$N3rgqr^th|s@r<I*|Yeq@I733dMaIBB?Y5T!La|fh5RmhBO3+7P6!Law3(MMn7#53RUP*TGM`>e"
    "dSG}aOr7Yw@r(&7koY=VZ!(^aZttMmYLWuYPx+DYwtGi986=t}$`4URXi*0C1`5C-9wLsYNcnmi?hTrF!m9|h<h_j6&>"
    "+`I<beB($=bvQ%V0hZtMBY^S-?h_NB-jU(@8-p#-Ms^FW<@&(WUx)4yqHvyjAnI$v;0a_&;k6WP``?oX3dJ5|z8ZAwmI"
    "ct{SwxC&>X7!&Gq`d8QQe9MIkHa3^@gf6bYZFC8^;Fm*LxiqGNds=gv2g^?k`7<o{HaPcT%ynXtAW@3mAhp8rmB$taae"
    "nwbM`??Xpzc8xQ@F1(}0X8!^$w1Uz>v*S4td?Ba2@lw_Xlax`}^9^7|D+RaztEjVv`4;SfC^7s_%?H@^N#{yGbQRd${r"
    "RlcuUxIn-?zUoF^9FoD{$k+Q4TPUlQ2!n^-s#2G;aZx`h$Z58Hoq9`EJ}u62{n>wB`0$4!q_3gZcFX|+MQpw2EoXYuAY"
    "KLh0(^|n~o$~41Hz<^rg;78cC^><Y5yuPJ`!GQdZeks>Xu;Lxiw2o0yXd)U3P{*GW?(a%@(__(yRR`miZ<nkBNNT{?-C"
    "YD!*Oq!K4Jh)UPnGMxQsa8g_3ORtrDrYUH?!M5N2Pf>!Ya=#PL>5Vzpd|PTsVf1&o*#69S{JNhFKl_+XM~~dv;iaEQ{v"
    "g42&Ia>cX@_sSvO}i6i(o3+L%^*z5a@yM>50yneL8DlO>+oR@Nj22wR<fw9$t<#1sPr?7V&`$`n>QDre4!mMn8P~&kS!"
    "Boa2-u!o{1?BTZdq!|$pGCPnf6$pzU)Wg5EBceN8u%T7^2{PD=vJ`Y-3vyeco?w_m1)}L4E<^~IQf?ylUwJH<2l#eUFN"
    "`g{O9qb-lp@nTYB-MDnF~^xEu!AUp>4Ji1mF3iQ-AZgA0x`)r`Tat^-}3YdEbVnZdMH09H6l6})Y9LZr2vMHJx`-*Zm;"
    "BuQA3nqknDo_A_c>Qnk%r_%*MMG!Bma=8j=`C+W&3HStm}b9?00FkYm9XUE;^(@IHccGX_N+(^WF&+aSk^tI>VD)EE1K"
    "wt~*^ELUM-!rj^S>-LN{6b?(J_m{;jGYMP8+bDr*Eq=2h3VR7mk=GoxF&Y|OXOdQosh$=|3G&5lOqFZ_3_0)d_M@x>rL"
    "`mYWECDwlLrmyTBbE<Eikvddx9oaljjVka!v!OZ|#<-uNHp`%u45hoaK4kj=w(C=-aOJ`9z?aq-+}IykqcTS{X8KKt!+"
    "Mnqa(Fv>t2qpeRPZW5kt&AYwP@G?#2$fMst|5=~D&wj}pG*;GGfN=u_~;)Qe3RSi-5UoBihXLcS{&{`+D8y=40tbx@>8"
    "=!}Ro9>wmT5V7*o3fsd-1uKoXI3vANk#)B%Hlr{)o#9{^x{qjh1vzpecK5KC-$zvuBHo8UjgtOds@`!F%H%i9Ce{dg;)"
    "IwR&^Yt@LUZ=C8TeuU3ckv(xv9FX}s_^P+>Soj$ko>5V<4N{$QQ3g6EA)A;R^N&*Y69!qvG2TfIQ$Ln}kajqn(j0NtPu"
    "cqmYp@&0D$G~uwks~L^}V3D5<3P))>6}=T*#pNSerV@=J*+-PHJ?Pi#6tlpY@rqMa?l((Mr6y8~3!9jNO|eFF*2&BF)*"
    "on7TB%e;ODln|1k|+Jx(JHG@=BzxSm!o^c*{Oa9hi#Dh0V9>LTpVxDM<dbOJL+U+x%}EI(Qqh-NbhG)^KX!fSjDRIei_"
    "Xh-wj{wpOiVcD<}{lSC&oMw@0iUXTGq%_-H<mft5@*A^!q?6rp#w<NBQJ#=>gzICYWSpjBnFcWgccyqg8xoZ9itIhHIN"
    "<rULR0{e6xbJpR_;)VxO7<e*c)(NJ9e*qjvCc%V#}QN~e%;NNyudN;zZhxNubzVy^K;A(9u9T+!=(oDB4A^K;9YgNvLU"
    ";JqvG`s7hKd%OgXXJob$t#(L@<>Es}~l0_I0_8#=MjcLuxf)xF*Ou~>_dhQ>!5K96R2blu1Yi+(%CQ`OHuaO^dX!Rvj@"
    "^@xdD<3C^xI*gdTpgd;r!dn;<j%^=Ol8rn$o;-B{1n1Gag|U>RQE=`tMfIk)Sl-EhauNzHeZPI+r9gm<$#*^9OIURpyR"
    "Qw!nQsr#1!~(Qf?Tz;DJS&d`1lT*E!BH%m;>LHS8E}usg@Wy0LbS$fV7*n2J*1bKbW)ixhviVG_+g|Q$}kt>S9+IG<<^"
    "q7@WV<P+^ssMqv5&%H{p)OA0HFq%nYqhypPYAa#Sy4~lf$Sq9fz2_VwL0cyk{qw}Xclw@$#zxU9&hK_M!CW<uP+p%w_v"
    "zSQo29143I^vX!KdE>NqpnZ}Lotdp^BGW>^O}$}AM8k66piLOHJ>)76uiTHI>U_UBHeJxkSMo}8RI$XLIGw+ocl%m`0o"
    "*+#tH_dxzEA@HEz~<3g66P|L-tPO+N60!6;_)W?B=XbF0EpD|g^3vP95Ba6SvCt*hMM89eQb>RUKASPEPDPCc6GDNC-E"
    "V=SE0Dn%Y$L1=WN7YVfM3GXc`rP8<F7K1b0q5*_82x3&3(99jf0`N4?A_LrgGYGD14ES;R4rtsg=1?h3Ff7{rRn*Hq^U"
    "!Z~Pgf}rXxh!|4QSF$rrib13Uj35gYqR||8m4}oZINbD<`RoaNJmzJz!fg-uJE=-5EQ~icY1;*syZ#2yOFTJq}f}1r(^"
    "K5&Y24!Xkoq^QrDBz`kT7uJ6b|;1`WbEue;J3B8PqY?VHXCC4yLwL7d*wF%<X1PJKbvY9fjeH6K2NEG1eQpdC!-7jK3-"
    "?=<bW06_#%Wp*J7c3;UqqPSz!u!S$td+ZVfb5*MMQqWVgA4$jyB9BYJ3(oAq9&VU5-Ua^SvA()o!pPi>gQ^)7?LO&53u"
    "$6zYvIx2k0=#iAY(jC}<aq@a(|>S9xoud#(`w8el5HiCW`>abas7<p@zn_P0G5tN`PkBb~z2tpq^WOlzmpow4%k%3l6D"
    "m<p;oCvN)YLj0b_<0O57C=t0+n_z)>SPE<XYHWyH&+LjUE|<$To23e;l))R{t=K(g{wR7_30d^OC{6jb9fUsz1uCC5s3"
    "mXJr7<cI@ljF0b6Y>q;T@juL8^jwHrEg|i(rcj98b4Rxc?e(!xAjvI`unkbSEr}ILv-IYLVNJdm{?VcJ#YOyLR1-9xaW"
    "wl5)@6qp{tnHsxn=5pkc4?rJ$EiJFlx?^IN~HiDCk8~BvgzdWw<^Ci&-)0Navu-mXb?M{*IBjvcbZtl;84S8WDO;LvNd"
    "u7_hE-|ADW5$a<-Kn1)T#gq~R6(D<TRUaYl0tC>B7g0BT^3xIFd#jD76+TVFbEq?>?2mrLF^9OP`2XWHKw6ZbZUEO^HF"
    "iKZ+$!+R~mGxQK>RNNf?K7K$Oea8j6L)Eg{U>J~wpBw-joMxNrd&|4^q(kq0Gt9KCaHYia2g6f#FgM>w1Y)nRo6rS-Az"
    ">2)`xgZ$eL(t>>MlBFGYppLwnc%5Ik2Ub46ZtavuC)nUEhe8P1Q&YDo^?nVO=g;8@xnZh#94m0zn*ClV6^@?0925W(U$"
    "2;`d}sU(Xy{qf(B~YGx%3<Fj&s=C2@qhuaFRY;TeBnyrCXn#GDrjN9EaXAn1~my6lbmi>Y()pmqqyS_YNRV@8Q{Vv3e#"
    "H?(8#d!)ew+UU|G0TZFxR^RzaXA|%mc(cV$aV8&(MW=3e6L=;Vt-C1`SL4hJYce_E0fnAbASZ5ZBSlfvfR{~;);h3`AX"
    "Lo@$%h$0*ey0dKr&BF-__iBKU<nwPmfv4KPB)xJ6O;-q&^OeLKnh^gE6=;BP3Xa=o`2wX`4ul4b_bKuee3o}{?4}DCf="
    "H;tY}}V3P^X!8XNKEQWa4yyj|!38)HrUW`;?Uw|*_iIq#{kyNc#B-9sP!zMu@YYBwtPIVPQ!=6B5?=y?73c$aC!8w62{"
    "-9Y;pQnhxu_jG#_$UP`Gvzd-LYFsfs4`<*fQ7^Gd(7#T@)X;M=E-YI{@*Jr0BRnc9a_P)soqj%rex~oMFo|DI08bZosp"
    "{C>$@UsrQ}cNmsEJ%Fvs^w*{^##9ge_1P+tN!tT<7Jcjd)+jd1@~jRTx?P4hrXe!Yk8x`+s8t7lPlNdi8hbx9ZtFP#ct"
    "yy`*U&kPMX4{xNND5wQzWx>>qaNfq1J*l$6Rh&#I$p$_-MT;JQYse)&?&%f8VU-}fie|#+FAL?@y;I-69N-ZGA;h@+Ln"
    "=Rs+sweUFNz#ZPZxV=)r&4||o0Vo8%9~ri?VlxTUp4C1Q*|d1=hc)8yLhN_v;?z-`C@P;@}NHzB5qNBDq6V?5W4>YsN!"
    "F+UK(FC)re^T)K~l|jH&`SL@bHm)$=O!K{NW}mxB_+f0G)Od~a4!$R>zCM<dh@)J>)Zfq0MLbH%gyi?b;hgA@P9i^|Q4"
    "P8)UkYW&4~L9sf#!fh}`za6;vtQ9C(RM4_N+=+G$?o}mSB@EyBE)X@tRz$+j37`D=1`^z@GG%J$zy"
)
